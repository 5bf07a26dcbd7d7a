"""What was recorded of each call, and what must hold of it, whatever was done to the gateway.

A call is *lost* when a client got a response or the upstream was asked for it, and neither row nor
entry is there; *double* when it was ended twice, has two rows, or what one key asked for was paid
for twice. A process that was killed may have *forgotten* what it had delivered since its last
report: then its answered calls cost less than their price, or nothing, and never more.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtests.chaos.calls import HELD_OF_NUMBER, Call, Outcome
from loadtests.rig.transactions import transaction

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


def open_holds(database_url: str, *, with_jobs: bool = True) -> set[str]:
    """The calls whose holds are open at this moment; those of jobs outlive their response."""
    with transaction(database_url) as cursor:
        query = "SELECT call_id::text FROM holds WHERE job_id IS NULL OR %s"
        cursor.execute(query, (with_jobs,))
        return {str(call) for (call,) in cursor.fetchall()}


def called_leases(database_url: str) -> int:
    """How many leases of balances are called back and have not been returned."""
    with transaction(database_url) as cursor:
        cursor.execute("SELECT count(*) FROM leases WHERE called_at IS NOT NULL")
        ((count,),) = cursor.fetchall()
        return int(count)


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


ATTEMPTS_MAX = 3
SHOWN_MAX = 12
_NO_ENTRIES = Entries()


@dataclass
class Verdict:
    """What was found of the calls of one fault."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    lost: int = 0
    double: int = 0
    forgotten: int = 0
    exact: int = 0  # answered calls, charged their price
    over: int = 0  # charged more than their price
    breaches: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What clients may see of a fault beside answers, and whether a process forgets by it."""

    may: frozenset[Outcome] = frozenset()
    forgets: bool = False


# The calls of one fault, and what may come of them.
Part = tuple[Sequence[Call], Terms]


def judge(
    parts: Sequence[Part], book: Book, served: Mapping[int, int], *, strangers: int = 0
) -> Verdict:
    """Lay what clients saw beside what was written and what the upstream served."""
    calls = [call for part, _ in parts for call in part]
    terms_of = [terms for part, terms in parts for _ in part]
    verdict = Verdict(outcomes=Counter(call.outcome for call in calls))
    ids = _ids(calls, book)
    for at, (call, terms) in enumerate(zip(calls, terms_of, strict=True)):
        for breach in _of_call(call, ids.get(at), book, served, terms, verdict):
            verdict.breaches.append(f"call {call.number} ({call.kind}, {call.outcome}): {breach}")
    _of_ledger(book, verdict)
    _of_intents(calls, ids, book, verdict)
    _of_nobody(calls, ids, book, strangers, verdict)
    return verdict


def shown(breaches: Sequence[str]) -> list[str]:
    """The first of them."""
    more = len(breaches) - SHOWN_MAX
    return [*breaches[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]


def short(call: Call) -> str:
    """What a client saw of a call, in a line."""
    body = call.response.body[-160:].decode(errors="replace")
    after = f"{call.ended_at - call.began_at:.1f} s" if call.is_over else "an unknown time"
    return f"{call.end} after {after}, status {call.response.status}, …{body!r}"


def _ids(calls: Sequence[Call], book: Book) -> dict[int, str]:
    """The id of each call that has one: its client received it, or the hold carries its number."""
    ids = {
        at: call.response.trace
        for at, call in enumerate(calls)
        if call.response.trace and not call.is_replay
    }
    taken = set(ids.values())
    keyed = {*book.films, *book.keys.values()}
    by_number = {
        entries.held_nano_usd[0] // HELD_OF_NUMBER: call_id
        for call_id, entries in book.entries.items()
        if entries.held_nano_usd and call_id not in keyed
    }
    for at, call in enumerate(calls):
        if at not in ids:
            key = call.sent.idempotency_key
            found = book.keys.get(key) if key else by_number.get(call.number)
            if found is not None and (call.is_replay or found not in taken):
                ids[at] = found
                taken.add(found)
    return ids


def _of_call(
    call: Call,
    call_id: str | None,
    book: Book,
    served: Mapping[int, int],
    terms: Terms,
    verdict: Verdict,
) -> list[str]:
    breaches: list[str] = []
    rows = book.rows.get(call_id or "", ())
    entries = book.entries.get(call_id or "", _NO_ENTRIES)
    breaches += _of_outcome(call, terms, has_rows=bool(rows))
    attempts = served.get(call.number, 0)
    if not call.is_keyed:
        if attempts > ATTEMPTS_MAX:
            breaches.append(f"the upstream was asked {attempts} times")
        if attempts and not entries.held_nano_usd:
            verdict.lost += 1
            breaches.append("the upstream was asked and nothing held")
            return breaches
    if call.response.status == 200 and not rows and not _is_open_film(call, call_id, book):
        verdict.lost += 1
        breaches.append(f"no row, entries {entries}")
    elif entries.held_nano_usd and not rows and call_id not in book.open_holds:
        verdict.lost += 1
        breaches.append(f"ended without a row, entries {entries}")
    breaches += [why for row in rows if (why := _of_row(call, row, terms, verdict))]
    return breaches


def _of_outcome(call: Call, terms: Terms, *, has_rows: bool) -> Iterator[str]:
    if call.outcome == "hung":
        yield "nothing came of it in a minute"
    elif call.outcome not in ("answered", *terms.may) and not (
        # The first request of its key was lost with its process, which is not buried yet.
        call.is_behind_another and "unanswered" in terms.may
    ):
        yield f"not to be seen in this fault: {short(call)}"
    if call.outcome == "refused":
        if why := call.unclean():
            yield why
        if not (has_rows or terms.forgets or call.is_turned_away):
            yield f"refused without a row: {short(call)}"


def _of_row(call: Call, row: Row, terms: Terms, verdict: Verdict) -> str | None:
    price = call.sent.price_nano_usd
    if row.cost_nano_usd > price:
        verdict.over += 1
        return f"cost {row.cost_nano_usd} of {price}: {row}"
    if call.outcome == "refused" and row.cost_nano_usd and not call.is_keyed:
        return f"refused and not free: {row}"
    if call.outcome != "answered":
        return None
    if (row.status, row.cost_nano_usd) == ("success", price):
        verdict.exact += 1
        return None
    # What has a key is durable before a client sees it.
    if terms.forgets and row.status == "interrupted" and not call.is_keyed:
        verdict.forgotten += 1
        return None
    return f"answered, for {price}, and its row is {row}"


def _of_ledger(book: Book, verdict: Verdict) -> None:
    for call_id, entries in book.entries.items():
        if len(entries.held_nano_usd) != 1 or len(entries.ends) > 1:
            verdict.double += 1
            verdict.breaches.append(f"{call_id}: entries {entries}")
        elif not entries.ends and call_id not in book.open_holds:
            verdict.breaches.append(f"{call_id}: neither open nor ended, {entries}")
    for call_id, rows in book.rows.items():
        if len(rows) > 1:
            verdict.double += 1
            verdict.breaches.append(f"{call_id}: rows {rows}")


def _of_intents(
    calls: Sequence[Call], ids: Mapping[int, str], book: Book, verdict: Verdict
) -> None:
    """What is asked for under one key is paid for once, if it is had at all."""
    tries: dict[str, set[str]] = defaultdict(set)
    prices: dict[str, int] = {}
    for at, call in enumerate(calls):
        if call.is_keyed:
            prices[call.sent.idempotency_key] = call.sent.price_nano_usd
            if at in ids:
                tries[call.sent.idempotency_key].add(ids[at])
    for key, call_ids in tries.items():
        paid = sum(row.cost_nano_usd for one in call_ids for row in book.rows.get(one, ()))
        if paid > prices[key]:
            verdict.double += 1
            verdict.breaches.append(f"{key}: paid {paid} of {prices[key]}")


def _of_nobody(
    calls: Sequence[Call], ids: Mapping[int, str], book: Book, strangers: int, verdict: Verdict
) -> None:
    """Every row is some client's, if only one that never saw an id."""
    known = set(ids.values())
    rows = [row for call_id, found in book.rows.items() if call_id not in known for row in found]
    without_id = sum(at not in ids for at in range(len(calls))) + strangers
    if len(rows) > without_id:
        verdict.breaches.append(f"{len(rows)} rows of {without_id} calls: {rows[:3]}")


def _is_open_film(call: Call, call_id: str | None, book: Book) -> bool:
    return call.kind == "film" and call_id in book.open_holds
