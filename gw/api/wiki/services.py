"""What the endpoints of knowledge bases use beside what every handler has."""

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
    """Made once by the composition root; `database` is a pool that no call waits for."""

    database: Database
    sources: Sources | BucketSources
    links: SourceLinks
    link_seconds: int

    async def linked(self, source: StoredSource, *, base_url: str, now: float) -> dict[str, Any]:
        """A source document with a link to it; `base_url` is how the client reaches the gateway."""
        return {
            "r2_key": source.r2_key,
            "filename": source.filename,
            "locator": source.locator,
            "url": await self._link(source.r2_key, base_url=base_url, now=now),
            "url_ttl_secs": self.link_seconds,
        }

    async def _link(self, name: str, *, base_url: str, now: float) -> str:
        """A link to a source for `link_seconds`: the gateway's own, or the bucket's."""
        if isinstance(self.sources, BucketSources):
            return await asyncio.to_thread(self.sources.link, name, seconds=self.link_seconds)
        expires_at = int(now) + self.link_seconds
        return self.links.link(name, base_url=base_url, expires_at=expires_at)


def make_sources(config: Config) -> Sources | BucketSources:
    """Where a configuration keeps sources."""
    if config.kb_store.kind == "s3":
        return BucketSources(config.kb_store.bucket)
    return Sources(config.kb_folder)


def make_wiki(config: Config, secret: Secret, database: Database) -> WikiServices:
    """What a configuration says of sources, with the pool that searches have."""
    return WikiServices(
        database=database,
        sources=make_sources(config),
        links=SourceLinks(*secret.subkeys("gw source links"), public_url=config.public_url),
        link_seconds=config.kb_store.link_seconds,
    )
