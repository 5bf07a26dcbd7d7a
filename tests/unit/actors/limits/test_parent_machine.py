"""The limits of three processes over their parent, under any sequence of requests."""

import asyncio
import socket

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from actors.limits.shared import SharedLimits
from actors.parent.backend import ParentBackend
from actors.parent.link import ParentLink
from actors.parent.server import ParentServer
from metrics.prometheus import Metrics
from tests.support.limits_machine import SharedLimitsMachine

METRICS = Metrics()


class OverTheParent(SharedLimitsMachine):
    """Real sockets."""

    server: ParentServer | None = None

    async def connect(self, number: int) -> SharedLimits:
        self.server = self.server or ParentServer(self.clock)
        ours, theirs = socket.socketpair()
        await self.server.attach(ours)
        link = ParentLink(theirs)
        await link.open()
        return SharedLimits(backend=ParentBackend(link), clock=self.clock, metrics=METRICS)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        assert self.server is not None
        self.server.forget_idle()

    async def end(self) -> None:
        await super().end()
        while self.server is not None and self.server.workers:
            await asyncio.sleep(0)


def test_several_processes_keep_the_rules_that_one_does() -> None:
    run_state_machine_as_test(
        OverTheParent, settings=settings(max_examples=50, stateful_step_count=30, deadline=None)
    )
