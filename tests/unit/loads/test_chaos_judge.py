"""The judge of `./ops/chaos` finds what is broken, and nothing where nothing is."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from loadtests.chaos import calls
from loadtests.chaos.calls import Call, KindName
from loadtests.chaos.judge import Book, Entries, Part, Row, Terms, Verdict, judge
from loadtests.rig.response import Response

FINISHED = {"stream": b"data: [DONE]\n\n", "messages": b"event: message_stop\n"}
PROTOCOLS = {"picture": "images", "film": "videos"}
KILLED = Terms(may=frozenset({"unanswered", "cut"}), forgets=True)


@dataclass
class Case:
    """Calls, and all that was written of them."""

    calls: list[Call] = field(default_factory=list)
    entries: dict[str, Entries] = field(default_factory=lambda: defaultdict(Entries))
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[str, str] = field(default_factory=dict)
    served: dict[int, int] = field(default_factory=dict)
    open_holds: list[str] = field(default_factory=list)

    def call(self, number: int, kind: KindName = "chat") -> Call:
        """One that was answered, and of which everything is as it should be."""
        sent = calls.make(kind, number, random.Random(number))
        call = Call(number, kind, sent, float(number), is_over=True)
        call_id = self.id_of(number)
        call.end = "whole"
        call.response = Response(200, {"x-gateway-trace": call_id}, FINISHED.get(kind, b"{}"))
        self.calls.append(call)
        self.entries[call_id] = Entries([number * calls.HELD_OF_NUMBER + 1], ["settle"])
        row = Row(PROTOCOLS.get(kind, kind), "success", None, sent.price_nano_usd)
        self.rows[call_id] = [row]
        self.served[number] = 1
        if sent.idempotency_key:
            self.keys[sent.idempotency_key] = call_id
        return call

    def id_of(self, number: int) -> str:
        return f"{number:032x}"

    def judged(self, terms: Terms | None = None, *, strangers: int = 0) -> Verdict:
        return self.judged_in([(self.calls, terms or Terms())], strangers=strangers)

    def judged_in(self, parts: Iterable[Part], *, strangers: int = 0) -> Verdict:
        book = Book(self.entries, self.rows, self.open_holds, self.keys, {})
        return judge(list(parts), book, self.served, strangers=strangers)


@pytest.fixture
def case() -> Case:
    """A call of each kind, all well."""
    made = Case()
    for number, kind in enumerate(calls.SHARES, start=1):
        made.call(number, kind)
    assert not made.judged().breaches
    assert made.judged().outcomes == {"answered": len(calls.SHARES)}
    assert (made.judged().exact, made.judged().over) == (len(calls.SHARES), 0)
    return made


def unseen(call: Call) -> None:
    """Its client saw nothing."""
    call.end, call.response = "nothing", Response()


def refused(call: Call, status: int = 503, retry_after: str = "") -> None:
    headers = {**call.response.headers, "retry-after": retry_after}
    body = json.dumps({"error": {"message": "come back"}}).encode()
    call.response = Response(status, headers, body)


def refused_without_row(case: Case) -> None:
    refused(case.calls[0], 504)
    case.rows.pop(case.id_of(1))


def changed(case: Case, number: int, **members: Any) -> None:
    """The row of a call says something else."""
    (row,) = case.rows[case.id_of(number)]
    case.rows[case.id_of(number)] = [row._replace(**members)]


BREAKS: dict[str, Callable[[Case], object]] = {
    "no row": lambda case: case.rows.pop(case.id_of(1)),
    "two rows": lambda case: case.rows[case.id_of(1)].append(case.rows[case.id_of(1)][0]),
    "settled twice": lambda case: case.entries[case.id_of(1)].ends.append("refund"),
    "never settled": lambda case: case.entries[case.id_of(1)].ends.clear(),
    "too dear": lambda case: changed(case, 2, cost_nano_usd=10**9),
    "too cheap": lambda case: changed(case, 2, cost_nano_usd=0),
    "not a success": lambda case: changed(case, 2, status="interrupted"),
    "served and never held": lambda case: case.entries.pop(case.id_of(3)),
    "served too often": lambda case: case.served.update({3: 4}),
    "not to be interrupted": lambda case: case.calls[1].response.pieces.clear(),
    "not to be unanswered": lambda case: unseen(case.calls[0]),
    "refused without a row": refused_without_row,
    "hung": lambda case: setattr(case.calls[0], "end", "hung"),
    "a row of nobody": lambda case: case.rows.update({"f" * 32: case.rows[case.id_of(1)]}),
}


def test_call_that_cost_more_than_its_price_is_counted(case: Case) -> None:
    changed(case, 2, cost_nano_usd=10**9)
    verdict = case.judged()
    assert (verdict.exact, verdict.over) == (len(calls.SHARES) - 1, 1)


@pytest.mark.parametrize("harm", BREAKS.values(), ids=BREAKS)
def test_whatever_is_not_as_it_should_be_is_a_breach(
    harm: Callable[[Case], object], case: Case
) -> None:
    harm(case)
    assert case.judged().breaches


def test_what_is_lost_and_what_is_settled_twice_is_counted(case: Case) -> None:
    case.rows.pop(case.id_of(1))
    case.entries[case.id_of(2)].ends.append("settle")
    verdict = case.judged()
    assert (verdict.lost, verdict.double) == (1, 1)


def test_refusal_is_clean_only_with_a_word_that_can_be_read_and_the_time_to_come_back(
    case: Case,
) -> None:
    may = Terms(may=frozenset({"refused"}))
    changed(case, 1, status="rejected", cost_nano_usd=0)
    refused(case.calls[0])
    assert "Retry-After" in case.judged(may).breaches[0]
    refused(case.calls[0], retry_after="1")
    assert not case.judged(may).breaches
    assert case.judged().breaches  # where nothing may be refused
    case.calls[0].response.pieces.clear()
    assert "without an error" in case.judged(may).breaches[0]
    refused(case.calls[0], 500)
    assert "status 500" in case.judged(may).breaches[0]


def test_each_call_is_judged_by_the_terms_of_its_own_fault(case: Case) -> None:
    changed(case, 1, status="rejected", cost_nano_usd=0)
    refused(case.calls[0], retry_after="1")
    terms = [Terms(may=frozenset({"refused"})), Terms()]
    parts = [case.calls[:1], case.calls[1:]]
    assert not case.judged_in(zip(parts, terms, strict=True)).breaches
    assert case.judged_in(zip(parts, reversed(terms), strict=True)).breaches


def test_process_that_was_killed_may_have_forgotten_but_for_what_has_a_key(case: Case) -> None:
    changed(case, 2, status="interrupted", cost_nano_usd=1)
    verdict = case.judged(KILLED)
    assert (verdict.forgotten, verdict.breaches) == (1, [])
    changed(case, 4, status="interrupted", cost_nano_usd=1)
    assert case.judged(KILLED).breaches


def test_call_of_which_its_client_saw_nothing_is_found_by_what_was_held(case: Case) -> None:
    for call in case.calls:
        unseen(call)
    assert not case.judged(KILLED).breaches
    case.rows[case.id_of(1)] *= 2
    assert case.judged(KILLED).double == 1


def test_what_one_key_asks_for_is_paid_for_once(case: Case) -> None:
    again = case.call(9, "picture")
    again.number = case.calls[3].number
    again.sent = case.calls[3].sent
    assert case.judged().double == 1


def test_connection_that_is_no_call_may_have_a_row(case: Case) -> None:
    BREAKS["a row of nobody"](case)
    assert not case.judged(strangers=1).breaches
