"""The rules of the limits as a state machine, run by Hypothesis on the book, Redis and a parent.

The model remembers everything: every admission under a limit per minute is a time in a list, those
in flight are a list. A subclass makes the limiter and the time, and lets each coroutine run.
"""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.limits.status import WINDOW_SECONDS, LimitStatus
from tests.support.aio import waited
from tests.support.clock import FakeClock

T = TypeVar("T")
names = st.integers(min_value=0, max_value=1)
limit = st.none() | st.integers(min_value=1, max_value=4)


class LimitsMachine(RuleBasedStateMachine):
    """Requests enter through any of the limiters, which share their limits if there are several."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ["acct_a", "acct_b"]
        self.limiters = self.make()
        self.admitted: dict[str, list[float]] = {name: [] for name in self.names}
        self.flying: list[tuple[Limiter, str, int]] = []

    def make(self) -> list[Limiter]:
        raise NotImplementedError

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def now(self) -> float:
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until what was said so far is known to every limiter."""

    def window(self, name: str) -> list[float]:
        return [at for at in self.admitted[name] if self.now() - at < WINDOW_SECONDS]

    def in_flight(self, name: str) -> int:
        return sum(flying == name for _, flying, _ in self.flying)

    @rule(data=st.data(), which=names, rpm=limit, concurrency=limit)
    def enter(
        self, data: st.DataObject, which: int, rpm: int | None, concurrency: int | None
    ) -> None:
        name = self.names[which]
        limiter = data.draw(st.sampled_from(self.limiters))
        for one in self.limiters:
            one.share(name)  # as every process does when it hears that a limit was set
        self.settle()
        window, flying = self.window(name), self.in_flight(name)
        expected = None
        if rpm is not None and len(window) >= rpm:
            expected = "rpm"
        elif concurrency is not None and flying >= concurrency:
            expected = "concurrency"
        standing, place = self.run(waited(limiter.enter(name, rpm=rpm, concurrency=concurrency)))
        assert standing.refused == expected
        if expected is None:
            self.flying.append((limiter, name, place))
            if rpm is not None:
                self.admitted[name].append(self.now())
        self.check_figures(name, standing, rpm=rpm, concurrency=concurrency)
        if expected == "rpm":
            assert rpm is not None
            self.check_retry_after(standing.retry_after_seconds, window, rpm)

    @rule(data=st.data(), which=names, rpm=st.integers(min_value=1, max_value=4))
    def take(self, data: st.DataObject, which: int, rpm: int) -> None:
        name = self.names[which]
        limiter = data.draw(st.sampled_from(self.limiters))
        is_refused = len(self.window(name)) >= rpm
        standing = self.run(limiter.take(name, rpm))
        assert (standing.refused == "rpm") == is_refused
        if not is_refused:
            self.admitted[name].append(self.now())

    def check_figures(
        self, name: str, standing: LimitStatus, *, rpm: int | None, concurrency: int | None
    ) -> None:
        window = self.window(name)
        if rpm is not None:
            oldest_seconds = self.now() - window[0] if window else WINDOW_SECONDS
            assert standing.requests == len(window)
            assert standing.reset_whole_seconds == math.ceil(WINDOW_SECONDS - oldest_seconds)
        if concurrency is not None:
            assert standing.in_flight == self.in_flight(name)

    def check_retry_after(self, seconds: int, window: list[float], rpm: int) -> None:
        """After so many seconds, and not a second earlier, there is room again."""
        later = self.now() + seconds
        assert sum(later - at < WINDOW_SECONDS for at in window) < rpm
        assert seconds == 1 or sum(later - 1 - at < WINDOW_SECONDS for at in window) >= rpm

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        limiter, name, place = gone = data.draw(st.sampled_from(self.flying))
        self.flying.remove(gone)
        limiter.leave(name, place)
        self.settle()

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 29.5, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.advance(seconds)

    @rule()
    def chores(self) -> None:
        for limiter in self.limiters:
            limiter.forget_idle()

    @invariant()
    def in_flight_is_counted(self) -> None:
        for name in self.names:
            counted = sum(limiter.in_flight(name) for limiter in self.limiters)
            assert counted == self.in_flight(name)


class SharedLimitsMachine(LimitsMachine):
    """Three processes with the model's time; a subclass connects each to what they share."""

    clock: FakeClock
    loop: asyncio.AbstractEventLoop
    shared: list[SharedLimits]
    running: list[asyncio.Task[None]]

    async def connect(self, number: int) -> SharedLimits:
        raise NotImplementedError

    def make(self) -> list[Limiter]:
        self.clock = FakeClock()
        self.loop = asyncio.new_event_loop()
        self.shared = [self.run(self.connect(number)) for number in range(3)]
        for one in self.shared:
            self.run(one.start())
            assert one.is_up
        self.running = [self.loop.create_task(one.run()) for one in self.shared]
        return [Limiter(clock=self.clock, shared=one) for one in self.shared]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def now(self) -> float:
        return self.clock.monotonic()

    def settle(self) -> None:
        """Each process gets one more answer, and words are heard in their order."""
        for limiter in self.limiters:
            self.run(limiter.take(f"settled {self.names[0]}", 10**6))

    def teardown(self) -> None:
        for task in self.running:
            task.cancel()
        self.run(self.end())
        self.loop.close()

    async def end(self) -> None:
        await asyncio.wait(self.running)
        for one in self.shared:
            await one.close()
