"""The two limits of an account: who is refused, what the headers say, and what is given back."""

from __future__ import annotations

import pytest

from actors.limits.accounts import AccountLimits, Limiter, LimitExceeded, LimitLease
from metrics.prometheus import Metrics
from tests.support.aio import run
from tests.support.clock import FakeClock

A = "acct_a"


class Limits:
    """The limits of one process, without a loop in sight."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.limiter = Limiter(clock=self.clock)
        self.limits = AccountLimits(limiter=self.limiter, metrics=Metrics())

    def enter(self, account: str, *, rpm: int | None, concurrency: int | None) -> LimitLease:
        return run(self.limits.enter(account, rpm=rpm, concurrency=concurrency))

    def in_flight(self, account: str) -> int:
        return self.limits.in_flight(account)


def limits() -> tuple[Limits, FakeClock]:
    made = Limits()
    return made, made.clock


def refused(made: Limits, rpm: int | None, concurrency: int | None) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as raised:
        made.enter(A, rpm=rpm, concurrency=concurrency)
    return raised.value


def test_account_without_limits_gets_no_headers_and_is_counted() -> None:
    made, _ = limits()
    admission = made.enter(A, rpm=None, concurrency=None)
    assert admission.headers == {}
    assert made.in_flight(A) == 1
    admission.leave()
    assert made.in_flight(A) == 0


def test_window_slides_and_does_not_jump() -> None:
    made, clock = limits()
    for _ in range(2):
        made.enter(A, rpm=2, concurrency=None).leave()
        clock.advance(20.0)
    exceeded = refused(made, 2, None)
    assert (exceeded.dimension, exceeded.limit) == ("requests per minute", 2)
    assert exceeded.retry_after_seconds == 20  # the first one was 40 s ago
    assert exceeded.headers == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "20",
        "Retry-After": "20",
    }
    clock.advance(19.9)
    assert refused(made, 2, None).retry_after_seconds == 1  # never "in 0 seconds"
    clock.advance(0.1)
    made.enter(A, rpm=2, concurrency=None).leave()
    assert refused(made, 2, None).retry_after_seconds == 20


def test_headers_of_an_admission_say_what_is_left_after_it() -> None:
    made, clock = limits()
    made.enter(A, rpm=3, concurrency=5)
    clock.advance(10.5)
    assert made.enter(A, rpm=3, concurrency=5).headers == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "50",
        "x-ratelimit-limit-concurrency": "5",
        "x-ratelimit-remaining-concurrency": "3",
    }


def test_concurrency_frees_when_a_request_leaves_and_leaves_once() -> None:
    made, _ = limits()
    first, second = (made.enter(A, rpm=None, concurrency=2) for _ in range(2))
    exceeded = refused(made, None, 2)
    assert (exceeded.dimension, exceeded.retry_after_seconds) == ("concurrency", 1)
    assert exceeded.headers["x-ratelimit-remaining-concurrency"] == "0"
    first.leave()
    first.leave()
    assert made.in_flight(A) == 1
    third = made.enter(A, rpm=None, concurrency=2)
    assert refused(made, None, 2)
    for admission in (second, third):
        admission.leave()
    assert made.in_flight(A) == 0


def test_refused_request_takes_nothing() -> None:
    made, _ = limits()
    held = made.enter(A, rpm=2, concurrency=1)
    for _ in range(5):
        refused(made, 2, 1)
    held.leave()
    made.enter(A, rpm=2, concurrency=1).leave()
    assert refused(made, 2, 1).dimension == "requests per minute"


def test_lowered_limit_waits_for_as_many_as_it_is_exceeded_by() -> None:
    made, clock = limits()
    for _ in range(4):
        made.enter(A, rpm=10, concurrency=None).leave()
        clock.advance(5.0)
    # Admitted 20, 15, 10 and 5 s ago; with a limit of 2 the third must have gone.
    assert refused(made, 2, None).retry_after_seconds == 50
    clock.advance(50.0)
    made.enter(A, rpm=2, concurrency=None)


def test_raised_or_lifted_limit_holds_for_the_next_request() -> None:
    made, _ = limits()
    made.enter(A, rpm=1, concurrency=1)
    refused(made, 1, 1)
    made.enter(A, rpm=2, concurrency=2)
    refused(made, 2, None)
    made.enter(A, rpm=None, concurrency=None)


def test_concurrency_limit_set_later_knows_who_is_in_flight() -> None:
    made, _ = limits()
    admission = made.enter(A, rpm=None, concurrency=None)
    refused(made, None, 1)
    admission.leave()
    made.enter(A, rpm=None, concurrency=1)


def test_accounts_do_not_share_their_limits() -> None:
    made, _ = limits()
    made.enter(A, rpm=1, concurrency=1)
    made.enter("acct_b", rpm=1, concurrency=1)


def test_idle_accounts_are_forgotten_and_no_others() -> None:
    made, clock = limits()
    flying = made.enter(A, rpm=None, concurrency=None)
    made.enter("acct_b", rpm=5, concurrency=None).leave()
    clock.advance(59.0)
    made.enter("acct_b", rpm=5, concurrency=None).leave()
    clock.advance(1.0)
    made.limiter.forget_idle()
    assert made.in_flight(A) == 1
    flying.leave()
    headers = made.enter("acct_b", rpm=5, concurrency=None).headers
    assert headers["x-ratelimit-remaining-requests"] == "3"  # the second is a second old
