"""The load counts whole answers and their events, however they are cut into reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loadtests.bench.canned import answer_to, chat_body, model_name, requests
from loadtests.bench.client import Connection, Tally
from loadtests.bench.load import Ask, Load, Subject
from loadtests.bench.upstream import Connection as Upstream
from loadtests.bench.upstream import Wheel
from loadtests.rig.processes import Target

CHAT, MESSAGES = b"/v1/chat/completions", b"/v1/messages"


class Wire:
    """A transport that remembers."""

    is_closed = False

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close


def connected(tally: Tally, *, events: int = 0) -> tuple[Connection, Wire]:
    connection, wire = Connection(lambda: tally, lambda _: None, events=events), Wire()
    transport: Any = wire
    connection.connection_made(transport)
    return connection, wire


def answer(path: bytes, *, is_stream: bool) -> bytes:
    found = answer_to(path, chat_body(model_name(9, 0), is_stream=is_stream))
    assert found is not None
    return b"".join(found.pieces)


def seen(data: bytes, *, size: int, events: int) -> Tally:
    """What a connection makes of an answer that comes in pieces of so many bytes."""
    tally = Tally()
    connection, _ = connected(tally, events=events)
    connection.ask(b"request", 0.0)
    for start in range(0, len(data), size):
        connection.data_received(data[start : start + size])
    return tally


@pytest.mark.parametrize(("path", "events"), [(CHAT, 0), (CHAT, 10), (MESSAGES, 9)])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
async def test_an_answer_in_any_pieces(path: bytes, events: int, size: int) -> None:
    tally = seen(answer(path, is_stream=events > 0), size=size, events=min(events, 9))
    assert (tally.answers, tally.events, tally.faults) == (1, events, {})
    assert len(tally.first) == len(tally.seconds) == 1
    assert len(tally.gaps) <= events


async def test_what_is_no_whole_good_answer_is_a_failure() -> None:
    good = answer(CHAT, is_stream=True)
    refused = good.replace(b"200 OK", b"503 No")
    assert seen(refused, size=1000, events=9).faults == {"HTTP/1.1 503": 1}
    assert seen(good, size=1000, events=50).faults == {"too few events": 1}
    tally = Tally()
    cut, _ = connected(tally)
    cut.ask(b"request", 0.0)
    cut.connection_lost(None)
    talking, wire = connected(tally)
    talking.data_received(b"hello")
    talking.connection_lost(None)
    assert tally.faults == {"cut": 1, "bytes that nobody asked for": 1}
    asked_to_close, _ = connected(tally)
    asked_to_close.close()
    asked_to_close.connection_lost(None)
    assert asked_to_close.closed.done()
    assert (wire.is_closed, tally.faults.total()) == (True, 2)


async def answered(subject: Subject) -> Tally:
    """What is seen of calls that come to an end, of a real upstream on the loopback."""
    loop = asyncio.get_running_loop()
    wheel = Wheel(loop)
    server = await loop.create_server(lambda: Upstream(wheel), "127.0.0.1", 0)
    there = subject.target._replace(port=server.sockets[0].getsockname()[1])
    load = Load(subject._replace(target=there))
    try:
        await load.open()
        await load.close()
        return load.tallies[0]
    finally:
        load.abort()
        server.close()


def asked(*keys: str, calls: int | None = None, events: int = 0, skipped: int = 0) -> Subject:
    made = requests("host", keys, chat_body("bench-9x1", is_stream=bool(events)))
    target = Target("gateway", "127.0.0.1", 0, 1, keys)
    return Subject("a", target, made, Ask(3, events=events), skipped=skipped, calls=calls)


async def test_what_has_an_end_asks_so_often_and_no_more() -> None:
    tally = await answered(asked("a", "b", calls=7))
    assert (tally.answers, tally.faults, len(tally.first)) == (7, {}, 7)
    tally = await answered(asked("a", calls=2, events=9))
    assert (tally.answers, tally.faults, tally.events) == (2, {}, 20)


def test_a_turn_goes_on_in_the_round_where_it_is_told() -> None:
    one = asked("a", "b", "c", skipped=4)
    load = Load(one)
    assert [next(load.requests) for _ in range(4)] == [*one.requests[1:], *one.requests[:2]]


def test_what_fails_outside_of_the_windows_is_known_too() -> None:
    load = Load(asked("a"))
    load.tallies[-1].faults["late"] += 2
    load.tallies += [Tally(), Tally()]
    load.tallies[-1].faults["cut"] += 1
    assert load.faults == {"late": 2, "cut": 1}


async def test_arrivals_wait_for_a_free_connection_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, sent = Load(asked("a")), list[float]()
    one, _ = connected(Tally())
    monkeypatch.setattr(one, "ask", lambda _, at: sent.append(at))
    load.arrive(1.0)
    load.arrive(2.0)
    assert sent == []
    for _ in range(3):
        load.idle(one)
    load.arrive(3.0)
    assert sent == [1.0, 2.0, 3.0]


def test_the_upstream_answers_by_the_models_name() -> None:
    plain, stream = (answer_to(CHAT, chat_body("bench-40x20", is_stream=s)) for s in (False, True))
    assert plain
    assert stream
    assert (len(plain.pieces), len(stream.pieces), stream.pause_ms) == (1, 40, 20)
    assert stream.pieces[-1].endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b'"usage"' in stream.pieces[-1]
    assert answer_to(CHAT, chat_body("another")) is None
    assert 1_000_000 < len(chat_body("bench-7x0", image_bytes=750_000)) < 1_010_000
