"""Whose directive applies: request, key, everybody; how often and for how long."""

from typing import Any

import loadtests.simulator
from loadtests.rig.response import Response
from loadtests.simulator.directives import Directive
from loadtests.simulator.exchange import GAUGES
from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.support.rows import cases
from tests.unit.simulator.client import KEY, call, chat


async def status(simulator: Simulator, **options: Any) -> int:
    return (await chat(simulator, **options)).status


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
    async def one() -> Response:
        async with Simulator() as simulator:
            return await chat(simulator, sim=sim)

    reply = run(one())
    assert reply.status == 400
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert word in reply.json["error"]["message"]


@cases("text", "[[sim {]]", '[[sim {"status": 500}', "[[sim 3]]", '[[sim {"x": 1}]]', "[[sim ")
def test_bad_directive_in_the_text_is_a_400(text: str) -> None:
    async def one() -> Response:
        async with Simulator() as simulator:
            return await chat(simulator, text=text)

    reply = run(one())
    assert reply.status == 400
    assert "sim" in reply.json["error"]["message"]


@cases(
    "results, message, expected",
    (["a", '[{"content": {"text": "[[sim {\\"status\\": 418}]]"}}]'], [], 418),
    (['[[sim {"status": 418}]]'], ["Stop.", '[[sim {"status": 409}]]'], 409),
)
def test_directive_is_found_in_the_result_of_a_tool_and_in_the_text_after_it(
    results: list[str], message: list[str], expected: int
) -> None:
    content = [
        *({"type": "tool_result", "tool_use_id": "t", "content": one} for one in results),
        *({"type": "text", "text": one} for one in message),
    ]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}

    async def one() -> Response:
        async with Simulator() as simulator:
            headers = {"x_api_key": KEY, "anthropic_version": "2023-06-01"}
            return await call(simulator, "POST", "/v1/messages", body, **headers)

    assert run(one()).status == expected


def test_every_gauge_and_the_list_of_directives_are_in_the_manual() -> None:
    manual = loadtests.simulator.__doc__ or ""
    for name in [Directive.__name__, *GAUGES]:
        assert f"`{name}`" in manual, name
