"""The limits of one process under any sequence of requests."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings

from actors.limits.limiter import Limiter
from tests.support.clock import FakeClock
from tests.support.limits_machine import LimitsMachine

T = TypeVar("T")


class OneProcess(LimitsMachine):
    """Nothing outside the process: no coroutine ever waits."""

    def make(self) -> list[Limiter]:
        self.clock = FakeClock()
        return [Limiter(clock=self.clock)]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            coroutine.send(None)
        except StopIteration as ended:
            result: T = ended.value
            return result
        raise AssertionError("it waits for something")

    def now(self) -> float:
        return self.clock.monotonic()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)


TestOneProcess = OneProcess.TestCase
TestOneProcess.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
