"""Which values the rows of a day may have, as far as this process knows.

Of each kind (`end_user`, `session`, `run`, a label's key) an account's rows of one day of UTC have
so many different values, the first; any other is stored as `other` (reference 11.1). The ledger
decides it in the transaction that writes the row (`attribution_store`), so that all processes
together store no more. A process remembers what was decided, and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from actors.wallet import messages

# What is forgotten is asked for once more; of 200 bytes each.
KNOWN_MAX = 50_000
DISTINCT_PER_DAY = 10_000  # where no configuration says so
_DAY_MICROSECONDS = 86_400_000_000

# Account, day since 1970, kind, value.
Value: TypeAlias = tuple[str, int, str, str]


class StoredValues:
    """The values that were stored, the newest; `most` of a kind in one account's day."""

    def __init__(self, most: Callable[[], int] = lambda: DISTINCT_PER_DAY) -> None:
        self.most = most
        self._known: dict[Value, None] = {}

    def __repr__(self) -> str:
        return f"<StoredValues {len(self._known)}>"

    def unknown(
        self, settlements: Sequence[messages.Settle], records: Sequence[messages.Record]
    ) -> dict[Value, tuple[list[int], list[int]]]:
        """Return what the rows of a batch have and is not known, with the places of these rows."""
        found: dict[Value, tuple[list[int], list[int]]] = {}
        kinds: tuple[Sequence[messages.Settle | messages.Record], ...] = (settlements, records)
        for kind, of_kind in enumerate(kinds):
            for place, message in enumerate(of_kind):
                attribution, outcome = message.facts.attribution, message.outcome
                if attribution is None or outcome is None:
                    continue
                account_id, day = message.facts.account_id, _day_of(outcome.created_at)
                for what, text in attribution.values:
                    value = account_id, day, what, text
                    if value not in self._known:
                        found.setdefault(value, ([], []))[kind].append(place)
        return found

    def note(self, asked: Sequence[Value], others: Sequence[int]) -> None:
        """Remember those that are stored: all but these places."""
        refused = set(others)
        known = self._known
        for place, value in enumerate(asked):
            if place not in refused:
                known[value] = None
        while len(known) > KNOWN_MAX:
            del known[next(iter(known))]


def _day_of(unix_seconds: float) -> int:
    # As PostgreSQL reads it, in whole microseconds.
    return round(unix_seconds * 1_000_000) // _DAY_MICROSECONDS


def asked_of(unknown: dict[Value, tuple[list[int], list[int]]], most: int) -> dict[str, Any]:
    """Return the argument of `attribution_store`."""
    return {
        "most": most,
        "values": [
            [account_id, _date(day), what, text, *places]
            for (account_id, day, what, text), places in unknown.items()
        ],
    }


def _date(day: int) -> str:
    return messages.instant(day * 86_400.0)[:10]
