"""What a stopping process waits for when its drain is over."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gw.http.drain import RequestsInFlight
from gw.runtime.shutdown import FLUSH_SECONDS, Shutdown
from tests.support.clock import FakeClock
from tests.support.logs import logs

TURN_SECONDS = 0.01


class Ledger:
    """A writer of so many batches, each of which takes so long."""

    def __init__(self, clock: FakeClock, batches: int, *, seconds: float) -> None:
        self._clock, self._seconds, self.left = clock, seconds, batches
        self._next_at = clock.monotonic() + seconds
        self.mailbox = SimpleNamespace(wake=self._wake)

    def _wake(self) -> None:
        if self._clock.monotonic() >= self._next_at:
            self.left -= 1
            self._next_at += self._seconds


async def nothing(*_: Any, **__: Any) -> int:
    return 0


async def is_settled(batches: int, *, seconds: float) -> bool:
    clock, drained = FakeClock(), RequestsInFlight()
    shutdown = Shutdown(
        in_flight=drained,
        public=cast(Any, SimpleNamespace(stop_accepting=nothing, wait_for_clients=nothing)),
        writer=cast(Any, Ledger(clock, batches, seconds=seconds)),
        heartbeat=cast(Any, SimpleNamespace(leave=nothing, open_holds=nothing)),
        last_use=cast(Any, SimpleNamespace(write_all=nothing)),
        supervisor=cast(Any, SimpleNamespace(stop_child=nothing)),
        clock=clock,
    )
    running = asyncio.ensure_future(shutdown.drain(0))
    while not running.done():
        clock.advance(TURN_SECONDS)
        await asyncio.sleep(0)
    return running.result()


async def test_settlements_that_the_database_takes_one_by_one_are_waited_for() -> None:
    assert await is_settled(5, seconds=0.7 * FLUSH_SECONDS)


@logs("settlements_left_to_recovery")
async def test_database_that_takes_nothing_is_given_up() -> None:
    assert not await is_settled(1, seconds=2 * FLUSH_SECONDS)
