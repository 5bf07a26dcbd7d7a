"""Calls of agents: how they end, and what of knowledge bases is put into them."""

from __future__ import annotations

from metrics.families import Families


class AgentMetrics:
    """Calls by outcome; retrievals by how long they take and how many pages they give."""

    def __init__(self, make: Families) -> None:
        self._calls = make.counter("gw_agent_calls_total")
        self._seconds = make.histogram("gw_agent_retrieval_seconds")[()]
        self._pages = make.histogram("gw_agent_pages_injected")[()]

    def called(self, outcome: str) -> None:
        """A call with an agent's key is over, or was refused once its body was here."""
        self._calls[(outcome,)].value += 1

    def retrieved(self, *, seconds: float, pages: int) -> None:
        """Knowledge bases were searched for a call."""
        self._seconds.observe(seconds)
        self._pages.observe(pages)
