"""The cost of an agent's keys in a window, from the sums of the call log.

Keys belong to their agent for life, revoked or not, so their rows are the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from actors.store.database import Database
from actors.store.queries import load
from gw.api.logs.window import Window
from gw.api.logs.window_parts import cover, part_columns

USAGE_SQL = load("gw.api.logs", "agent_usage.sql")


@dataclass(slots=True)
class KeyUsage:
    """The sums of one key, or of several."""

    key_id: str = ""
    key_name: str = ""
    requests: int = 0
    cost_nano_usd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    by_status: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        by_status: Mapping[str, int],
        cost_nano_usd: int,
        input_: int,
        output: int,
        cached: int,
    ) -> None:
        """Add the sums of further calls."""
        for status, requests in by_status.items():
            self.by_status[status] = self.by_status.get(status, 0) + requests
            self.requests += requests
        self.cost_nano_usd += cost_nano_usd
        self.input_tokens += input_
        self.output_tokens += output
        self.cached_tokens += cached


async def read_usage(
    database: Database, *, account_id: str, agent_id: str, window: Window, now: datetime
) -> list[KeyUsage]:
    """Return the keys of the agent that have rows in the window. Raises StoreUnavailable."""
    params = {"account": account_id, "agent": agent_id, **part_columns(cover(window, now))}
    keys: dict[str, KeyUsage] = {}
    for key_id, name, status, requests, *sums in await database.fetch_all(
        USAGE_SQL["sums"], params
    ):
        key = keys.setdefault(key_id, KeyUsage(key_id, name))
        key.add({status: requests}, *sums)
    return list(keys.values())


def total(keys: Sequence[KeyUsage]) -> KeyUsage:
    """Return the sums of all keys."""
    whole = KeyUsage()
    for key in keys:
        whole.add(
            key.by_status,
            key.cost_nano_usd,
            key.input_tokens,
            key.output_tokens,
            key.cached_tokens,
        )
    return whole
