"""Run one coroutine to its end in a test, and fail on anything left behind.

A task exception that nobody retrieved, or a callback that raised, fails the test instead of
being printed and forgotten. Nothing here sleeps: tests wait on events or with `eventually`.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from loadtests.rig.waiting import PATIENCE_SECONDS

T = TypeVar("T")


async def waited(result: T | Coroutine[Any, Any, T]) -> T:
    """What was decided at once, or what is after a wait."""
    return await result if isinstance(result, Coroutine) else result


def run(
    coroutine: Coroutine[Any, Any, T],
    *,
    timeout_seconds: float = 2 * PATIENCE_SECONDS,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run `coroutine` on a fresh loop; raise AssertionError when the loop reports a stray error."""
    strays: list[str] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: strays.append(repr(context)))
        async with asyncio.timeout(timeout_seconds):
            return await coroutine

    with asyncio.Runner(loop_factory=new_loop) as runner:
        result = runner.run(main())
    gc.collect(1)  # a full one costs more than most tests; what they leave behind is young
    assert not strays, f"errors nobody retrieved: {strays}"
    return result


# Runs a test on asyncio's own loop and on uvloop's, whose transports differ in many a detail.
both_loops = pytest.mark.both_loops


def run_test(test: Callable[[], Coroutine[Any, Any, None]], *, on_both_loops: bool) -> None:
    """Run an asynchronous test on a loop of its own, or on one of each kind."""
    run(test())
    if on_both_loops:
        run(test(), new_loop=uvloop.new_event_loop)


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], *, what: str = "the condition"
) -> None:
    """Poll `condition` until it is true; fail with its name when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        outcome = condition()
        if isinstance(outcome, Awaitable):
            outcome = await outcome
        if outcome:
            return
        assert time.monotonic() < deadline, f"{what} did not come true in {PATIENCE_SECONDS:g} s"
        await asyncio.sleep(0.01)


def jump(seconds: float) -> None:
    """Let the running loop's own time be later: what waits on a time-out until then wakes.

    Everything else goes on as before; a `Clock` is not touched.
    """
    loop: Any = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds
