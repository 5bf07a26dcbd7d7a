"""The limits under any sequence of requests, against a model that remembers everything."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.limits import WINDOW_SECONDS, AccountLimits, Admission, LimitExceeded
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock

ACCOUNTS = ("acct_a", "acct_b")
METRICS = Metrics()
limit = st.none() | st.integers(min_value=1, max_value=4)


class LimitsMachine(RuleBasedStateMachine):
    """Every admission under a limit per minute is a time in a list; those in flight are a list."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.limits = AccountLimits(clock=self.clock, metrics=METRICS)
        self.admitted: dict[str, list[float]] = {account: [] for account in ACCOUNTS}
        self.flying: list[Admission] = []

    def window(self, account: str) -> list[float]:
        now = self.clock.monotonic()
        return [at for at in self.admitted[account] if now - at < WINDOW_SECONDS]

    def in_flight(self, account: str) -> int:
        return sum(admission.account_id == account for admission in self.flying)

    @rule(account=st.sampled_from(ACCOUNTS), rpm=limit, concurrency=limit)
    def enter(self, account: str, rpm: int | None, concurrency: int | None) -> None:
        window, flying = self.window(account), self.in_flight(account)
        expected = None
        if rpm is not None and len(window) >= rpm:
            expected = "requests per minute"
        elif concurrency is not None and flying >= concurrency:
            expected = "concurrency"
        if expected is not None:
            with pytest.raises(LimitExceeded) as raised:
                self.limits.enter(account, rpm=rpm, concurrency=concurrency)
            assert raised.value.dimension == expected
            if rpm is not None and expected == "requests per minute":
                self.check_retry_after(raised.value.retry_after_seconds, window, rpm)
            return
        admission = self.limits.enter(account, rpm=rpm, concurrency=concurrency)
        self.flying.append(admission)
        if rpm is not None:
            self.admitted[account].append(self.clock.monotonic())
            left = rpm - len(self.window(account))
            assert admission.headers["x-ratelimit-remaining-requests"] == str(left)
            reset = math.ceil(self.window(account)[0] + WINDOW_SECONDS - self.clock.monotonic())
            assert admission.headers["x-ratelimit-reset-requests"] == str(reset)

    def check_retry_after(self, seconds: int, window: list[float], rpm: int) -> None:
        """After so many seconds, and not a second earlier, there is room again."""
        later = self.clock.monotonic() + seconds
        assert sum(later - at < WINDOW_SECONDS for at in window) < rpm
        assert seconds == 1 or sum(later - 1 - at < WINDOW_SECONDS for at in window) >= rpm

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), twice=st.booleans())
    def leave(self, data: st.DataObject, twice: bool) -> None:
        admission = data.draw(st.sampled_from(self.flying))
        self.flying.remove(admission)
        admission.leave()
        if twice:
            admission.leave()

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 29.5, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def chores(self) -> None:
        self.limits.forget_idle()

    @invariant()
    def in_flight_is_counted(self) -> None:
        for account in ACCOUNTS:
            assert self.limits.in_flight(account) == self.in_flight(account)


TestLimitsMachine = LimitsMachine.TestCase
TestLimitsMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
