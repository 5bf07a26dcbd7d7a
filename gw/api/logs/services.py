"""What the endpoints of the call log use beside what every handler has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from actors.limits.status import LimitStatus
from actors.store.database import Database
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.summary_cache import SummaryCache


class Rates(Protocol):
    """Counts requests by name, over every process that shares the count."""

    async def take(self, name: str, limit: int) -> LimitStatus:
        """Count one request, unless there were `limit` in the last 60 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """Made once by the composition root."""

    database: Database
    rates: Rates  # one count of a key for the three endpoints
    redact: Callable[[str], str]  # once more on the way out: rows may be older than the channels
    credits_per_usd: Decimal
    cursors: CursorSeal
    summaries: SummaryCache
