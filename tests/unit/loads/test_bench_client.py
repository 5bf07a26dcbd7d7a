"""The load generator counts whole answers and their events, however they are cut into reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loadtests.bench.canned import answer_to, model_name
from loadtests.bench.client import Arrivals, Connection, Tally
from loadtests.bench.load import Plan
from loadtests.bench.requests import chat_body
from tests.support.aio import run

CHAT, MESSAGES = b"/v1/chat/completions", b"/v1/messages"


class Wire:
    """A transport that remembers."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True

    abort = close


def answer(path: bytes, *, is_stream: bool) -> bytes:
    found = answer_to(path, chat_body(model_name(9, 0), is_stream=is_stream))
    assert found is not None
    return b"".join(found.pieces)


async def seen(data: bytes, *, size: int, events: int) -> tuple[Tally, list[Connection], Wire]:
    """What a connection makes of an answer that comes in pieces of so many bytes."""
    tally, idle, wire = Tally(), list[Connection](), Wire()
    connection = Connection(lambda: tally, idle.append, events=events)
    transport: Any = wire
    connection.connection_made(transport)
    connection.ask(b"request", 0.0)
    for start in range(0, len(data), size):
        connection.data_received(data[start : start + size])
    return tally, idle, wire


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_a_plain_answer_in_any_pieces(size: int) -> None:
    tally, idle, _ = run(seen(answer(CHAT, is_stream=False), size=size, events=0))
    assert (tally.answers, tally.failures, len(idle)) == (1, 0, 1)
    assert len(tally.first) == len(tally.seconds) == 1


@pytest.mark.parametrize(("path", "events"), [(CHAT, 10), (MESSAGES, 9)])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_a_stream_in_any_pieces(path: bytes, events: int, size: int) -> None:
    tally, idle, _ = run(seen(answer(path, is_stream=True), size=size, events=9))
    assert (tally.answers, tally.failures, len(idle)) == (1, 0, 1)
    assert tally.events == events
    assert len(tally.gaps) < events


def test_what_is_not_a_whole_good_answer_is_a_failure() -> None:
    good = answer(CHAT, is_stream=True)
    tally, _, _ = run(seen(good.replace(b"200 OK", b"503 No"), size=1000, events=9))
    assert tally.faults == {"HTTP/1.1 503": 1}
    tally, _, _ = run(seen(good, size=1000, events=50))
    assert tally.faults == {"too few events": 1}


async def test_a_connection_that_is_cut_or_speaks_unasked_is_a_failure() -> None:
    tally, idle, wire = Tally(), list[Connection](), Wire()
    transport: Any = wire
    cut = Connection(lambda: tally, idle.append, events=0)
    cut.connection_made(transport)
    cut.ask(b"request", 0.0)
    cut.connection_lost(None)
    talking = Connection(lambda: tally, idle.append, events=0)
    talking.connection_made(transport)
    talking.data_received(b"hello")
    talking.connection_lost(None)
    assert tally.faults == {"cut": 1, "bytes that nobody asked for": 1}
    assert wire.is_closed


async def test_arrivals_wait_for_a_free_connection_in_their_order() -> None:
    sent: list[tuple[Connection, float]] = []
    arrivals = Arrivals(lambda connection, at: sent.append((connection, at)))
    one = Connection(Tally, arrivals.idle, events=0)
    arrivals.arrive(1.0)
    arrivals.arrive(2.0)
    assert (sent, len(arrivals)) == ([], 2)
    arrivals.idle(one)
    arrivals.idle(one)
    arrivals.idle(one)
    arrivals.arrive(3.0)
    assert sent == [(one, 1.0), (one, 2.0), (one, 3.0)]


def test_load_processes_share_a_plan_without_loss() -> None:
    plan = Plan("host", 1, (b"a", b"b", b"c"), connections=7, rate=90.0)
    shares = [plan.share(number, 3) for number in range(3)]
    assert [share.connections for share in shares] == [3, 2, 2]
    assert [share.requests for share in shares] == [(b"a",), (b"b",), (b"c",)]
    assert sum(share.rate or 0 for share in shares) == 90.0
    one = Plan("host", 1, (b"a",), connections=2)
    assert one.share(1, 2).requests == (b"a",)


def test_the_upstream_answers_by_the_models_name() -> None:
    plain = answer_to(CHAT, chat_body("bench-40x20"))
    stream = answer_to(CHAT, chat_body("bench-40x20", is_stream=True))
    assert plain is not None
    assert stream is not None
    assert (len(plain.pieces), len(stream.pieces), stream.pause_ms) == (1, 40, 20)
    assert stream.pieces[-1].endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b'"usage"' in stream.pieces[-1]
    assert answer_to(CHAT, chat_body("another")) is None


def test_load_is_a_megabyte_when_a_picture_is_inside() -> None:
    assert 1_000_000 < len(chat_body("bench-7x0", image_bytes=750_000)) < 1_010_000


async def test_idle_connections_that_close_on_request_are_no_failure() -> None:
    tally, wire = Tally(), Wire()
    transport: Any = wire
    connection = Connection(lambda: tally, lambda one: None, events=0)
    connection.connection_made(transport)
    connection.close()
    connection.connection_lost(None)
    await asyncio.wait_for(connection.closed, 1)
    assert (wire.is_closed, tally.failures) == (True, 0)
