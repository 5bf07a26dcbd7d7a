"""The services of knowledge bases, beside those of every handler."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from actors.store.database import Database
from gw.config.config import Config
from gw.keys.secret import Secret
from gw.knowledge.bucket_sources import BucketSources
from gw.knowledge.reading import StoredSource
from gw.knowledge.sources import SourceLinks, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiServices:
    """The services of the endpoints; `database` is a pool that calls do not use."""

    database: Database
    sources: Sources | BucketSources
    links: SourceLinks
    link_seconds: int

    async def linked(self, source: StoredSource, *, base_url: str, now: float) -> dict[str, Any]:
        """Return a source document with its link; `base_url` is the client's URL of the gateway."""
        return {
            "r2_key": source.r2_key,
            "filename": source.filename,
            "locator": source.locator,
            "url": await self._link(source.r2_key, base_url=base_url, now=now),
            "url_ttl_secs": self.link_seconds,
        }

    async def _link(self, name: str, *, base_url: str, now: float) -> str:
        """Return a link to a source, valid for `link_seconds`: the gateway's or the bucket's."""
        if isinstance(self.sources, BucketSources):
            return await asyncio.to_thread(self.sources.link, name, seconds=self.link_seconds)
        expires_at = int(now) + self.link_seconds
        return self.links.link(name, base_url=base_url, expires_at=expires_at)


def make_sources(config: Config) -> Sources | BucketSources:
    """Return the configured storage of sources."""
    if config.kb_store.kind == "s3":
        return BucketSources(config.kb_store.bucket)
    return Sources(config.kb_folder)


def make_wiki(config: Config, secret: Secret, database: Database) -> WikiServices:
    """Return the services of knowledge bases, with the pool of searches."""
    return WikiServices(
        database=database,
        sources=make_sources(config),
        links=SourceLinks(*secret.subkeys("gw source links"), public_url=config.public_url),
        link_seconds=config.kb_store.link_seconds,
    )
