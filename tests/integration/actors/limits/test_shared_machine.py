"""The limits of three processes over one Redis, under any sequence of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from actors.limits.backend import RedisBackend
from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.limits.words import MICROSECONDS, Speech, scripts
from actors.store.redis import RedisLink
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.limits_machine import LimitsMachine

T = TypeVar("T")
METRICS = Metrics()


def test_several_processes_keep_the_rules_that_one_does(redis_url: str) -> None:
    class SeveralProcesses(LimitsMachine):
        """Each example has names of its own on the one server, whose time is the model's."""

        example = 0

        def make(self) -> list[Limiter]:
            type(self).example += 1
            self.names = [f"{name}_{self.example}" for name in self.names]
            self.clock = FakeClock()
            self.loop = asyncio.new_event_loop()
            self.shared = [
                SharedLimits(
                    backend=RedisBackend(
                        RedisLink(f"{redis_url}?socket_timeout=10", scripts()),
                        Speech(f"proc_{number}", now_us=self.now_us),
                    ),
                    clock=self.clock,
                    metrics=METRICS,
                )
                for number in range(3)
            ]
            for one in self.shared:
                self.run(one.start())
                assert one.is_up
            self.running = [self.loop.create_task(one.run()) for one in self.shared]
            return [Limiter(clock=self.clock, shared=one) for one in self.shared]

        def now_us(self) -> int:
            return round(self.clock.monotonic() * MICROSECONDS)

        def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
            return self.loop.run_until_complete(coroutine)

        def now(self) -> float:
            return self.clock.monotonic()

        def advance(self, seconds: float) -> None:
            """The processes live: leases are renewed before they run out."""
            self.clock.advance(seconds)
            for one in self.shared:
                one.renew()
            self.settle()

        def settle(self) -> None:
            """Each process gets one more answer, and words are heard in their order."""
            for limiter in self.limiters:
                self.run(limiter.take(f"settled_{self.example}", 10**6))

        def teardown(self) -> None:
            for task in self.running:
                task.cancel()
            self.run(self.end())
            self.loop.close()

        async def end(self) -> None:
            await asyncio.wait(self.running)
            for one in self.shared:
                await one.close()

    run_state_machine_as_test(
        SeveralProcesses,
        settings=settings(max_examples=25, stateful_step_count=30, deadline=None),
    )
