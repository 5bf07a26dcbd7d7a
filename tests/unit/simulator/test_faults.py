"""Whose directive applies: request, key, port, everybody; how often and for how long."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

import loadtests.simulator
from loadtests.simulator.directives import Directive, DirectiveError, FaultBook
from loadtests.simulator.exchange import GAUGES
from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.support.rows import cases
from tests.unit.simulator.client import KEY, Reply, ask, call


async def status(simulator: Simulator, **options: Any) -> int:
    return (await ask(simulator, **options)).status


async def test_stronger_layers_win_member_by_member() -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"status": 500, "message": "from everybody"})
        simulator.put_faults({"status": 501}, port=simulator.port)
        assert await status(simulator) == 501
        simulator.put_faults({"status": 502}, api_key=KEY)
        assert await status(simulator) == 502
        assert await status(simulator, key="another") == 501
        text = 'hello [[sim {"status": 503}]] there'
        assert await status(simulator, text=text) == 503
        reply = await ask(simulator, text=text, sim={"status": 504})
        assert (reply.status, reply.json["error"]["message"]) == (504, "from everybody")
        assert await status(simulator, sim={"status": None}) == 200
        simulator.clear_faults(api_key=KEY)
        simulator.clear_faults(port=simulator.port)
        assert await status(simulator) == 500
        simulator.clear_faults()
        assert await status(simulator) == 200


def test_directive_in_the_text_is_not_echoed() -> None:
    async def one() -> str:
        async with Simulator() as simulator:
            reply = await ask(simulator, text='before [[sim {"crlf": true}]] after')
            content: str = reply.json["choices"][0]["message"]["content"]
            return content

    assert run(one()).endswith("before after")


def test_times_counts_down_and_goes() -> None:
    async def one() -> list[int]:
        async with Simulator() as simulator:
            simulator.put_faults({"status": 503, "times": 2}, api_key=KEY)
            first = await status(simulator)
            listed = await call(simulator, "GET", "/_sim/faults")
            assert listed.json["channels"] == {KEY: {"status": 503, "times": 1}}
            return [first, await status(simulator), await status(simulator)]

    assert run(one()) == [503, 503, 200]


def test_rate_follows_from_the_seed() -> None:
    async def one(seed: int) -> list[int]:
        async with Simulator(seed=seed) as simulator:
            simulator.put_faults({"status": 503, "rate": 0.5})
            standing = [await status(simulator) for _ in range(40)]
            simulator.clear_faults()
            own = [await status(simulator, sim={"status": 503, "rate": 0.5}) for _ in range(40)]
            return standing + own

    first = run(one(1))
    assert run(one(1)) == first
    assert run(one(2)) != first
    for half in (first[:40], first[40:]):
        assert 8 <= half.count(503) <= 32
        assert half.count(200) + half.count(503) == 40


@cases(
    "sim, word",
    ({"statsu": 500}, "'statsu'"),
    ({"status": "500"}, "$.status"),
    ({"status": 99}, "$.status"),
    ({"rate": 2}, "$.rate"),
    ({"malformed": "xml"}, "$.malformed"),
    ({"usage": {"inputs": 1}}, "inputs"),
    ({"tool_calls": [{"nom": "x"}]}, "$.tool_calls"),
    ({"headers": {"a": "b\r\nc: d"}}, "'a'"),
    ({"headers": {"a b": "c"}}, "'a b'"),
    ({"retry_after": "1\r\n"}, "retry-after"),
    ({"times": 1}, "'times'"),
    ([], "object"),
    (3, "object"),
)
def test_bad_directive_is_a_400_that_names_the_member(sim: object, word: str) -> None:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, sim=sim)

    reply = run(one())
    assert reply.status == 400
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert word in reply.json["error"]["message"]


@cases("text", "[[sim {]]", '[[sim {"status": 500}', "[[sim 3]]", '[[sim {"x": 1}]]', "[[sim ")
def test_bad_directive_in_the_text_is_a_400(text: str) -> None:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, text=text)

    reply = run(one())
    assert reply.status == 400
    assert "sim" in reply.json["error"]["message"]


async def test_faults_are_set_listed_and_cleared_over_http() -> None:
    async with Simulator() as simulator:
        put = await call(simulator, "PUT", "/_sim/faults/sk-a%2Fb", {"status": 418})
        assert put.json == {"default": None, "channels": {"sk-a/b": {"status": 418}}}
        assert await status(simulator, key="sk-a/b") == 418
        await call(simulator, "PUT", "/_sim/faults", {"status": 419})
        assert await status(simulator) == 419
        bad = await call(simulator, "PUT", "/_sim/faults/x", {"statsu": 1})
        assert bad.status == 400
        assert "'statsu'" in bad.json["error"]
        await call(simulator, "DELETE", "/_sim/faults/sk-a%2Fb")
        gone = await call(simulator, "DELETE", "/_sim/faults")
        assert gone.json == {"default": None, "channels": {}}
        assert await status(simulator, key="sk-a/b") == 200


async def test_ports_are_upstreams_of_their_own() -> None:
    async with Simulator() as simulator:
        other = await simulator.open_port()
        simulator.put_faults({"status": 500}, port=other)
        assert await status(simulator) == 200
        assert await status(simulator, port=other) == 500
        await simulator.close_port(other)
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(simulator, port=other)


def test_book_refuses_an_unknown_member_and_shows_its_state() -> None:
    book = FaultBook(1)
    with pytest.raises(DirectiveError):
        book.put(None, {"nothing": 1})
    assert book.is_empty
    book.put("b", {"status": 500})
    assert repr(book) == "<FaultBook everybody=False channels: b>"
    assert book.clear("b")
    assert not book.clear("b")
    assert book.is_empty


def test_every_gauge_and_the_list_of_directives_are_in_the_manual() -> None:
    manual = loadtests.simulator.__doc__ or ""
    for name in [Directive.__name__, *GAUGES]:
        assert f"`{name}`" in manual, name
