"""Searches of knowledge bases, links to their sources, and calls of agents."""

from __future__ import annotations

from metrics.families import Families


class AgentMetrics:
    """Calls by outcome; retrievals by duration and number of pages."""

    def __init__(self, make: Families) -> None:
        self._calls = make.counter("gw_agent_calls_total")
        self._seconds = make.histogram("gw_agent_retrieval_seconds")[()]
        self._pages = make.histogram("gw_agent_pages_injected")[()]

    def called(self, outcome: str) -> None:
        """Count a call with an agent's key that ended, or was refused after its body."""
        self._calls[(outcome,)].value += 1

    def retrieved(self, *, seconds: float, pages: int) -> None:
        """Count a search of knowledge bases for a call."""
        self._seconds.observe(seconds)
        self._pages.observe(pages)


class KnowledgeMetrics:
    """Searches by surface and result; links by result."""

    def __init__(self, make: Families) -> None:
        self._searches = make.counter("gw_kb_searches_total")
        self._seconds = make.histogram("gw_kb_search_seconds")
        self._links = make.counter("gw_kb_source_links_total")
        self._sources_left = make.gauge("gw_stray_source_accounts")[()]

    def searched(self, *, surface: str, result: str, seconds: float) -> None:
        """Count a search: its pages have all terms, any of them, or there are none."""
        self._searches[surface, result].value += 1
        self._seconds[(surface,)].observe(seconds)

    def link_followed(self, result: str) -> None:
        """Count a link to a source: served, expired, invalid or without target."""
        self._links[(result,)].value += 1

    def sources_left(self, accounts: int) -> None:
        """Set the number of accounts with unreferenced sources that cannot be removed."""
        self._sources_left.value = accounts
