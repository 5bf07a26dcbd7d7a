"""The limits of three processes over one Redis, under any sequence of requests."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from actors.limits.limiter import Limiter
from actors.limits.redis_backend import (
    MICROSECONDS,
    RedisBackend,
    RedisCommands,
    scripts,
)
from actors.limits.shared import SharedLimits
from actors.store.redis import RedisLink
from metrics.prometheus import Metrics
from tests.support.limits_machine import SharedLimitsMachine

METRICS = Metrics()


def test_several_processes_keep_the_rules_that_one_does(redis_url: str) -> None:
    class OverRedis(SharedLimitsMachine):
        """Each example has names of its own on the one server, whose time is the model's."""

        example = 0

        def make(self) -> list[Limiter]:
            type(self).example += 1
            self.names = [f"{name}_{self.example}" for name in self.names]
            return super().make()

        async def connect(self, number: int) -> SharedLimits:
            link = RedisLink(f"{redis_url}?socket_timeout=10", scripts())
            backend = RedisBackend(link, RedisCommands(f"proc_{number}", now_us=self.now_us))
            return SharedLimits(backend=backend, clock=self.clock, metrics=METRICS)

        def now_us(self) -> int:
            return round(self.clock.monotonic() * MICROSECONDS)

        def advance(self, seconds: float) -> None:
            """The processes live: permits are renewed before they run out."""
            self.clock.advance(seconds)
            for one in self.shared:
                one.renew()
            self.settle()

    run_state_machine_as_test(
        OverRedis, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )
