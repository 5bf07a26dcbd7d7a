"""The two limits of an account, over all its keys, in this process (spec: Limits).

Requests per minute is a 60-second sliding window that remembers each admission exactly; concurrency
counts requests in flight. A refused request takes nothing. An admission is left exactly once, on
every way out; leaving twice is harmless.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from actors.clock import Clock
from metrics.prometheus import Metrics

WINDOW_SECONDS = 60.0
# Concurrency has no window that ends; a second is when a client may sensibly look again.
CONCURRENCY_RETRY_SECONDS = 1


class LimitExceeded(Exception):
    """The account has reached one of its limits."""

    def __init__(
        self, dimension: str, limit: int, headers: Mapping[str, str], retry_after_seconds: int
    ) -> None:
        super().__init__(dimension)
        self.dimension = dimension  # "requests per minute" or "concurrency"
        self.limit = limit
        self.headers = headers
        self.retry_after_seconds = retry_after_seconds


class _Usage:
    __slots__ = ("admitted", "in_flight")

    def __init__(self) -> None:
        self.admitted: deque[float] = deque()
        self.in_flight = 0


class Admission:
    """The right to be in flight, until `leave`."""

    __slots__ = ("_is_left", "_limits", "account_id", "headers")

    def __init__(self, limits: AccountLimits, account_id: str, headers: Mapping[str, str]) -> None:
        self._limits = limits
        self._is_left = False
        self.account_id = account_id
        self.headers = headers

    def leave(self) -> None:
        """Give the place back."""
        if not self._is_left:
            self._is_left = True
            self._limits.left(self.account_id)


class AccountLimits:
    """Admits requests of accounts within their limits."""

    def __init__(self, *, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._usage: dict[str, _Usage] = {}

    def enter(self, account_id: str, *, rpm: int | None, concurrency: int | None) -> Admission:
        """Admit one request. Raises LimitExceeded, with the headers of the answer.

        Requests in flight are counted for unlimited accounts too, so that a limit set a moment
        later knows them.
        """
        usage = self._usage.get(account_id)
        if usage is None:
            usage = self._usage[account_id] = _Usage()
        now = self._clock.monotonic()
        if rpm is not None:
            while usage.admitted and usage.admitted[0] <= now - WINDOW_SECONDS:
                usage.admitted.popleft()
            if len(usage.admitted) >= rpm:
                # With a limit lowered meanwhile, room comes when enough of the oldest have aged.
                freeing = usage.admitted[len(usage.admitted) - rpm]
                retry_after = max(1, math.ceil(WINDOW_SECONDS - (now - freeing)))
                self._refuse(usage, "requests per minute", rpm, now, rpm, concurrency, retry_after)
        if concurrency is not None and usage.in_flight >= concurrency:
            self._refuse(
                usage, "concurrency", concurrency, now, rpm, concurrency, CONCURRENCY_RETRY_SECONDS
            )
        usage.in_flight += 1
        if rpm is not None:
            usage.admitted.append(now)
        return Admission(self, account_id, _headers(usage, now, rpm, concurrency))

    def left(self, account_id: str) -> None:
        """One request of the account is no longer in flight (called by its Admission)."""
        usage = self._usage[account_id]
        usage.in_flight -= 1
        assert usage.in_flight >= 0, account_id
        if not usage.in_flight and not usage.admitted:
            del self._usage[account_id]

    def in_flight(self, account_id: str) -> int:
        """Requests of the account in flight in this process."""
        usage = self._usage.get(account_id)
        return usage.in_flight if usage is not None else 0

    def forget_idle(self) -> None:
        """Drop accounts with nothing in flight and nothing in the window."""
        limit = self._clock.monotonic() - WINDOW_SECONDS
        for account_id, usage in list(self._usage.items()):
            if not usage.in_flight and (not usage.admitted or usage.admitted[-1] <= limit):
                del self._usage[account_id]

    def _refuse(
        self,
        usage: _Usage,
        dimension: str,
        limit: int,
        now: float,
        rpm: int | None,
        concurrency: int | None,
        retry_after_seconds: int,
    ) -> None:
        self._metrics.limit_refused("concurrency" if dimension == "concurrency" else "rpm")
        headers = {
            **_headers(usage, now, rpm, concurrency),
            "Retry-After": str(retry_after_seconds),
        }
        raise LimitExceeded(dimension, limit, headers, retry_after_seconds)


def _headers(usage: _Usage, now: float, rpm: int | None, concurrency: int | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if rpm is not None:
        oldest = usage.admitted[0] if usage.admitted else now
        headers["x-ratelimit-limit-requests"] = str(rpm)
        headers["x-ratelimit-remaining-requests"] = str(max(0, rpm - len(usage.admitted)))
        headers["x-ratelimit-reset-requests"] = str(
            max(0, math.ceil(WINDOW_SECONDS - (now - oldest))) if usage.admitted else 0
        )
    if concurrency is not None:
        headers["x-ratelimit-limit-concurrency"] = str(concurrency)
        headers["x-ratelimit-remaining-concurrency"] = str(max(0, concurrency - usage.in_flight))
    return headers
