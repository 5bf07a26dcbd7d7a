"""What the endpoints of knowledge bases use beside what every handler has."""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.database import Database
from gw.knowledge.sources import SourceLinks, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiServices:
    """Made once by the composition root; `database` is a pool that no call waits for."""

    database: Database
    sources: Sources
    links: SourceLinks
    link_seconds: int
