"""What the endpoints of knowledge bases use beside what every handler has."""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.database import Database
from gw.config.config import Config
from gw.keys.secret import Secret
from gw.knowledge.sources import SourceLinks, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiServices:
    """Made once by the composition root; `database` is a pool that no call waits for."""

    database: Database
    sources: Sources
    links: SourceLinks
    link_seconds: int


def make_wiki(config: Config, secret: Secret, database: Database) -> WikiServices:
    """What a configuration says of sources, with the pool that searches have."""
    return WikiServices(
        database=database,
        sources=Sources(config.kb_folder),
        links=SourceLinks(secret.subkey("gw source links"), public_url=config.public_url),
        link_seconds=config.kb_store.link_seconds,
    )
