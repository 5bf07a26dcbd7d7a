"""Looking inside: counters, recent requests, waiting, forgetting."""

from __future__ import annotations

import asyncio

import pytest

import loadtests.simulator
from loadtests.simulator.directives import Directive
from loadtests.simulator.exchange import Exchange, Ring
from loadtests.simulator.introspection import BadQuestion, Unmet
from loadtests.simulator.server import Simulator
from loadtests.simulator.stats import GAUGES
from tests.support.aio import run
from tests.unit.simulator.client import KEY, Client, ask, ask_bytes, call, request


async def test_stats_count_what_happened() -> None:
    async with Simulator() as simulator:
        await ask(simulator, "chat", stream=True, sim={"events": 3})
        await ask(simulator, "messages", key="other")
        await ask(simulator, "chat", sim={"refuse": True})
        await simulator.wait(completed=2, cut=1, connections_open=0)
        stats = (await call(simulator, "GET", "/_sim/stats")).json
        assert stats["requests"] == 3
        assert stats["by_protocol"] == {"chat": 2, "messages": 1}
        assert (stats["active"], stats["completed"], stats["cut"]) == (0, 2, 1)
        assert stats["cancelled_by_client"] == 0
        assert stats["events_sent"] == 6
        assert stats["bytes_sent"] > 500
        assert (stats["connections"], stats["connections_open"]) == (4, 1)
        assert stats["by_key"][KEY] == {
            "requests": 2,
            "active": 0,
            "completed": 1,
            "cut": 1,
            "cancelled_by_client": 0,
        }
        assert stats["by_key"]["other"]["completed"] == 1


async def test_requests_are_shown_as_they_came() -> None:
    async with Simulator() as simulator:
        for number in range(3):
            await call(simulator, "POST", f"/v1/messages?n={number}", b'{"a": 1}', X_Two="b")
        await call(simulator, "POST", "/v1/responses", b"{\xff")
        shown = (await call(simulator, "GET", "/_sim/requests?last=2")).json["requests"]
        assert [entry["path"] for entry in shown] == ["/v1/messages", "/v1/responses"]
        first = shown[0]
        assert (first["method"], first["query"], first["body"]) == ("POST", "n=2", '{"a": 1}')
        assert first["headers"]["x-two"] == "b"
        assert ["X-Two", "b"] in first["raw_headers"]
        assert (first["status"], first["outcome"], first["protocol"]) == (
            401,
            "completed",
            "messages",
        )
        assert shown[1]["body"] == "{\ufffd"
        mine = simulator.requests()
        assert len(mine) == 4
        assert mine[-1].body == b"{\xff"
        assert mine[0].parameters() == {"n": "0"}
        assert mine[0].header(b"x-two") == b"b"
        assert mine[0].header(b"x-three") == b""


def test_repeated_headers_are_joined_and_kept_apart() -> None:
    headers = [(b"A", b"1"), (b"a", b"2")]
    shown = Exchange("GET", b"/", headers, b"", 1, is_keep_alive=True).describe()
    assert shown["headers"] == {"a": "1, 2"}
    assert shown["raw_headers"] == [["A", "1"], ["a", "2"]]


def test_ring_is_bounded_in_number_and_bytes() -> None:
    ring = Ring(requests=3, body_bytes=10)

    def add(size: int) -> None:
        ring.add(Exchange("POST", b"/", [], b"x" * size, 1, is_keep_alive=True))

    for _ in range(5):
        add(2)
    assert len(ring) == 3
    add(7)
    assert [len(exchange.body) for exchange in ring.last(9)] == [2, 7]
    add(50)
    assert [len(exchange.body) for exchange in ring.last(9)] == [50]
    assert ring.last(0) == []
    ring.clear()
    assert len(ring) == 0


async def test_wait_answers_when_the_counter_moves() -> None:
    async with Simulator() as simulator, Client(simulator) as watcher:
        watcher.send(request("GET", "/_sim/wait?cancelled=1&key=upstream-key&timeout=30"))
        async with Client(simulator) as client:
            client.send(ask_bytes("chat", sim={"hang": "headers"}))
            await simulator.wait(active=1)
        reply = await watcher.reply()
        assert (reply.status, reply.json["is_met"]) == (200, True)
        assert reply.json["cancelled_by_client"] == 1
        assert reply.json["by_key"][KEY]["cancelled_by_client"] == 1


async def test_wait_gives_up_after_its_timeout() -> None:
    async with Simulator() as simulator:
        reply = await call(simulator, "GET", "/_sim/wait?requests=1&timeout=0.01")
        assert (reply.status, reply.json["is_met"]) == (408, False)
        with pytest.raises(Unmet, match="requests"):
            await simulator.wait(requests=1, timeout_seconds=0.01)
        with pytest.raises(BadQuestion):
            await simulator.wait(nonsense=1)


@pytest.mark.parametrize(
    "query", ["", "nonsense=1", "requests=x", "requests=1&timeout=x", "requests=1&timeout=900"]
)
def test_wait_refuses_what_it_cannot_mean(query: str) -> None:
    async def one() -> int:
        async with Simulator() as simulator:
            return (await call(simulator, "GET", f"/_sim/wait?{query}")).status

    assert run(one()) == 400


async def test_reset_forgets_all_but_what_is_under_way() -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"times": 5, "text": "x"})
        await ask(simulator, "chat")
        async with Client(simulator) as client:
            client.send(ask_bytes("chat", sim={"hang": "headers"}))
            await simulator.wait(active=1)
            reply = await call(simulator, "POST", "/_sim/reset")
            assert (reply.json["requests"], reply.json["active"]) == (0, 1)
            assert simulator.requests() == []
            assert simulator.engine.faults.is_empty
        await simulator.wait(cancelled=1, active=0)


def test_every_directive_and_counter_is_in_the_manual() -> None:
    manual = loadtests.simulator.__doc__ or ""
    for name in [*Directive.__struct_fields__, *GAUGES]:
        assert f"`{name}`" in manual, name


def test_unknown_introspection_is_404() -> None:
    async def one() -> list[int]:
        async with Simulator() as simulator:
            paths = ["/_sim", "/_sim/", "/_sim/nothing"]
            return [(await call(simulator, "GET", path)).status for path in paths]

    assert run(one()) == [404, 404, 404]


async def test_stop_drops_what_is_under_way() -> None:
    simulator = Simulator()
    async with simulator:
        client = Client(simulator)
        await client.__aenter__()
        client.send(ask_bytes("chat", sim={"hang": "headers"}))
        await simulator.wait(active=1)
    assert await client.at_end()
    await client.leave()
    assert (simulator.stats.active, simulator.stats.cancelled_by_client) == (0, 1)
    assert "0 active" in repr(simulator)


async def test_many_clients_at_once_are_all_served() -> None:
    async with Simulator() as simulator:
        wanted = [ask(simulator, "chat", key=f"k{number}") for number in range(100)]
        replies = await asyncio.gather(*wanted)
        assert {reply.status for reply in replies} == {200}
        assert len(simulator.stats.by_key) == 100
