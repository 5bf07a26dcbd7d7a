"""The two limits of an account, over all its keys, and their headers (reference 1.4).

A refused request takes nothing: it is neither in the window nor in flight. An admission is left
once, in every exit path; leaving it again has no effect.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from actors.limits.limiter import UNLIMITED, Entered, Limiter
from actors.limits.status import LimitStatus
from metrics.prometheus import Metrics

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


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


class Permit:
    """The right to be in flight, until `leave`."""

    __slots__ = ("_limiter", "_slot", "account_id", "headers")

    def __init__(
        self, limiter: Limiter, account_id: str, slot: int, headers: Mapping[str, str]
    ) -> None:
        self._limiter = limiter
        self._slot: int | None = slot  # None once it is released
        self.account_id = account_id
        self.headers = headers

    def leave(self) -> None:
        """Release the slot. Releasing it again has no effect."""
        slot, self._slot = self._slot, None
        if slot is not None:
            self._limiter.leave(self.account_id, slot)


class AccountLimits:
    """Admits requests of accounts within their limits."""

    def __init__(self, *, limiter: Limiter, metrics: Metrics) -> None:
        self._limiter = limiter
        self._metrics = metrics

    def enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> Permit | Coroutine[Any, Any, Permit]:
        """Admit one request, at once if no other process is involved, else by what is returned.

        Raises LimitExceeded with the headers of the response, as that does.
        """
        if rpm is None and concurrency is None:
            return Permit(self._limiter, account_id, self._limiter.fly(account_id), _NO_HEADERS)
        entered = self._limiter.enter(account_id, rpm=rpm, concurrency=concurrency)
        if isinstance(entered, tuple):
            return self._admission(account_id, *entered, rpm, concurrency)
        return self._admitted(account_id, entered, rpm, concurrency)

    async def _admitted(
        self,
        account_id: str,
        entering: Coroutine[Any, Any, Entered],
        rpm: int | None,
        concurrency: int | None,
    ) -> Permit:
        return self._admission(account_id, *(await entering), rpm, concurrency)

    def _admission(
        self,
        account_id: str,
        status: LimitStatus,
        slot: int,
        rpm: int | None,
        concurrency: int | None,
    ) -> Permit:
        if status is UNLIMITED:
            return Permit(self._limiter, account_id, slot, _NO_HEADERS)
        headers = _headers(status, rpm, concurrency)
        if status.refused is None:
            return Permit(self._limiter, account_id, slot, headers)
        self._metrics.limit_refused(status.refused)
        retry_after_seconds = status.retry_after_seconds
        headers["Retry-After"] = str(retry_after_seconds)
        if status.refused == "rpm":
            assert rpm is not None
            raise LimitExceeded("requests per minute", rpm, headers, retry_after_seconds)
        assert concurrency is not None
        raise LimitExceeded("concurrency", concurrency, headers, retry_after_seconds)

    def in_flight(self, account_id: str) -> int:
        """Return the requests of the account in flight in this process."""
        return self._limiter.in_flight(account_id)


def _headers(status: LimitStatus, rpm: int | None, concurrency: int | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if rpm is not None:
        headers["x-ratelimit-limit-requests"] = str(rpm)
        headers["x-ratelimit-remaining-requests"] = str(max(0, rpm - status.requests))
        headers["x-ratelimit-reset-requests"] = str(status.reset_whole_seconds)
    if concurrency is not None:
        headers["x-ratelimit-limit-concurrency"] = str(concurrency)
        headers["x-ratelimit-remaining-concurrency"] = str(max(0, concurrency - status.in_flight))
    return headers
