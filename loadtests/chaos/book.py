"""What database and upstream recorded of each call."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.transactions import transaction

_NUMBER = re.compile(r"call (\d+)\.")


class Row(NamedTuple):
    """One row of the call log."""

    protocol: str
    status: str
    error_code: str | None
    cost_nano_usd: int


@dataclass
class Entries:
    """What the ledger has of one call: what was held, and by what it was ended."""

    held_nano_usd: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)  # settle, refund


@dataclass
class Book:
    """Everything by the id of the call, as 32 hex digits."""

    entries: Mapping[str, Entries]
    rows: Mapping[str, Sequence[Row]]
    open_holds: Sequence[str]
    keys: Mapping[str, str]  # of idempotency: the call that claimed each last
    films: Mapping[str, str]  # what became of the job of each call


def read_book(database_url: str) -> Book:
    """Everything in the database."""
    with transaction(database_url) as cursor:

        def fetch(query: str) -> list[tuple[Any, ...]]:
            cursor.execute(query)
            return list(cursor.fetchall())

        entries: dict[str, Entries] = defaultdict(Entries)
        for call, kind, held in fetch(_ENTRIES):
            of_call = entries[_hex(call)]
            if kind == "hold":
                of_call.held_nano_usd.append(held)
            elif kind in ("settle", "refund"):
                of_call.ends.append(kind)
        rows: dict[str, list[Row]] = defaultdict(list)
        for call, *row in fetch(_ROWS):
            rows[_hex(call)].append(Row(*row))
        return Book(
            entries=entries,
            rows=rows,
            open_holds=[_hex(call) for (call,) in fetch("SELECT call_id::text FROM holds")],
            keys={key: _hex(call) for key, call in fetch(_KEYS)},
            films={_hex(call): state for call, state in fetch(_FILMS)},
        )


def open_holds(database_url: str) -> int:
    """How many holds are open at this moment."""
    with transaction(database_url) as cursor:
        cursor.execute("SELECT count(*) FROM holds")
        ((count,),) = cursor.fetchall()
        return int(count)


def holds_of_calls(database_url: str) -> set[str]:
    """The open holds of calls that end with their response: those of jobs live on."""
    with transaction(database_url) as cursor:
        cursor.execute("SELECT call_id::text FROM holds WHERE job_id IS NULL")
        return {str(call) for (call,) in cursor.fetchall()}


def served(requests: Sequence[Mapping[str, Any]]) -> Counter[int]:
    """How often the upstream was asked for the call of each number."""
    found = (_NUMBER.search(one["body"]) for one in requests if one["method"] == "POST")
    return Counter(int(number[1]) for number in found if number is not None)


_ENTRIES = """SELECT call_id::text, kind::text, held_nano_usd FROM entries
              WHERE call_id IS NOT NULL ORDER BY id"""
_ROWS = "SELECT request_id::text, protocol, status, error_code, cost_nano_usd FROM call_logs"
_KEYS = "SELECT key, call_id::text FROM idempotency"
_FILMS = "SELECT call_id::text, state::text FROM jobs"


def _hex(call_id: str) -> str:
    return call_id.replace("-", "")
