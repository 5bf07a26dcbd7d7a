"""What the calls of the last days counted, for the money that another price list would have made.

The SQL is `usage.sql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.store.database import Database
from actors.store.queries import load
from channels.usage import Usage

SQL = load("gw.price_list", "usage.sql")


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The paid calls of one model, and their tokens in sum."""

    calls: int
    tokens: Usage


async def usage_of(
    database: Database, models: Sequence[str], *, days: int
) -> dict[str, ModelUsage]:
    """The usage of these models by their ids; one that was not called is left out."""
    rows = await database.fetch_all(SQL["tokens_by_model"], {"days": days, "models": list(models)})
    return {
        model: ModelUsage(
            calls,
            Usage(
                input_tokens=given,
                output_tokens=output,
                cached_tokens=cached,
                cache_write_tokens=written,
            ),
        )
        for model, calls, given, cached, written, output in rows
    }
