"""A load process asks what its plan says, of a real upstream on the loopback."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loadtests.bench.client import Tally
from loadtests.bench.load import Load, Plan, Seen
from loadtests.bench.requests import chat_body, requests
from loadtests.bench.upstream import Connection, Wheel
from tests.support.aio import run


async def answered(plan: Plan) -> Tally:
    """What is seen of a plan that ends by itself."""
    loop = asyncio.get_running_loop()
    wheel = Wheel(loop)
    server = await loop.create_server(lambda: Connection(wheel), "127.0.0.1", 0)
    load = Load(replace(plan, port=server.sockets[0].getsockname()[1]))
    try:
        await load.open()
        await load.close()
        return load.swap(Tally())
    finally:
        load.abort()
        server.close()


def plan(*keys: str, calls: int | None = None, events: int = 0, skipped: int = 0) -> Plan:
    asked = requests("host", keys, chat_body("bench-9x1", is_stream=bool(events)))
    return Plan("127.0.0.1", 0, asked, 3, events=events, skipped=skipped, calls=calls)


def test_a_plan_with_an_end_asks_so_often_and_no_more() -> None:
    tally = run(answered(plan("a", "b", calls=7)))
    assert (tally.answers, tally.failures, len(tally.first)) == (7, 0, 7)
    tally = run(answered(plan("a", calls=2, events=9)))
    assert (tally.answers, tally.failures, tally.events) == (2, 0, 20)


def test_a_turn_goes_on_in_the_round_where_it_is_told() -> None:
    one = plan("a", "b", "c", skipped=4)
    load = Load(one)
    assert [next(load._requests) for _ in range(4)] == [
        *one.requests[1:],
        *one.requests[:2],
    ]


def test_what_fails_outside_of_the_windows_is_known_too() -> None:
    seen = Seen(windows=[Tally()])
    seen.after.fail("cut")
    seen.add(Seen(before=Tally(faults={"late": 2}), windows=[Tally(answers=3)]))
    assert seen.faults == {"late": 2, "cut": 1}
    assert seen.windows[0].answers == 3
