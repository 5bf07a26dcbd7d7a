"""Requests per minute and concurrency of accounts: the counts, and a machine over them."""

import pytest

from actors.limits.accounts import AccountLimits, LimitExceeded, Permit
from actors.limits.limiter import Limiter
from metrics.prometheus import Metrics
from tests.support.aio import run, waited
from tests.support.clock import FakeClock

A = "acct_a"


class Limits:
    """The limits of one process, without a loop in sight."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.limiter = Limiter(clock=self.clock)
        self.limits = AccountLimits(limiter=self.limiter, metrics=Metrics())

    def enter(self, account: str, *, rpm: int | None, concurrency: int | None) -> Permit:
        return run(waited(self.limits.enter(account, rpm=rpm, concurrency=concurrency)))

    def in_flight(self, account: str) -> int:
        return self.limits.in_flight(account)


def limits() -> tuple[Limits, FakeClock]:
    made = Limits()
    return made, made.clock


def refused(made: Limits, rpm: int | None, concurrency: int | None) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as raised:
        made.enter(A, rpm=rpm, concurrency=concurrency)
    return raised.value


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


async def test_window_of_one_name_is_not_that_of_another_use() -> None:
    limiter = Limiter(clock=FakeClock())
    await limiter.take("logs:key_1", 1)
    standing, place = await waited(limiter.enter("key_1", rpm=1, concurrency=1))
    assert standing.refused is None
    limiter.leave("key_1", place)
