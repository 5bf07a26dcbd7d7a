"""The limits of three processes over their parent, under any sequence of requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from actors.limits.limiter import Limiter
from actors.limits.parent import ParentBackend
from actors.limits.shared import SharedLimits
from actors.parent.link import ParentLink
from actors.parent.server import ParentServer
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.limits_machine import LimitsMachine

T = TypeVar("T")
METRICS = Metrics()


class SeveralProcesses(LimitsMachine):
    """Real sockets, the model's time."""

    def make(self) -> list[Limiter]:
        self.clock = FakeClock()
        self.loop = asyncio.new_event_loop()
        self.server = ParentServer(self.clock)
        self.shared: list[SharedLimits] = []
        for _ in range(3):
            ours, theirs = socket.socketpair()
            self.run(self.server.attach(ours))
            link = ParentLink(theirs)
            self.run(link.open())
            one = SharedLimits(backend=ParentBackend(link), clock=self.clock, metrics=METRICS)
            self.run(one.start())
            assert one.is_up
            self.shared.append(one)
        self.running = [self.loop.create_task(one.run()) for one in self.shared]
        return [Limiter(clock=self.clock, shared=one) for one in self.shared]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def now(self) -> float:
        return self.clock.monotonic()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.server.forget_idle()

    def settle(self) -> None:
        """Each process gets one more answer, and words are heard in their order."""
        for limiter in self.limiters:
            self.run(limiter.take("settled", 10**6))

    def teardown(self) -> None:
        for task in self.running:
            task.cancel()
        self.run(self.end())
        self.loop.close()

    async def end(self) -> None:
        await asyncio.wait(self.running)
        for one in self.shared:
            await one.close()
        while self.server.workers:
            await asyncio.sleep(0)


def test_several_processes_keep_the_rules_that_one_does() -> None:
    run_state_machine_as_test(
        SeveralProcesses,
        settings=settings(max_examples=50, stateful_step_count=30, deadline=None),
    )
