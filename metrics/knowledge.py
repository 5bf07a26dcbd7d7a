"""How knowledge bases are searched, and what becomes of links to their sources."""

from __future__ import annotations

from metrics.families import Families


class KnowledgeMetrics:
    """Searches by where they come from and what they find; links by how they end."""

    def __init__(self, make: Families) -> None:
        self._searches = make.counter("gw_kb_searches_total")
        self._seconds = make.histogram("gw_kb_search_seconds")
        self._links = make.counter("gw_kb_source_links_total")

    def searched(self, *, surface: str, result: str, seconds: float) -> None:
        """A search is done: pages have all of its terms, any of them, or there is none."""
        self._searches[surface, result].value += 1
        self._seconds[(surface,)].observe(seconds)

    def link_followed(self, result: str) -> None:
        """A link to a source was served, or was expired, invalid or led to nothing."""
        self._links[(result,)].value += 1
