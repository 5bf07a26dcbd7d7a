"""A value that expires, refreshed before its end: one fetch for all requests that wait.

No request waits while the value is valid: its successor is fetched ahead of time, in a task, one
at a time. Requests wait only without a valid value, and fail with the fetch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from channels.errors import CredentialsUnavailable

T = TypeVar("T")

# How long a request waits for a fetch.
WAIT_SECONDS = 15.0
# How long before its end a value is refreshed, at most; half of a shorter life.
AHEAD_SECONDS = 300.0
# A value is not used in its last moments, since sending takes time, and clocks differ.
MARGIN_SECONDS = 30.0
# The pause after a failed fetch ahead of time.
RETRY_SECONDS = 15.0
# A younger value is kept, even if it is refused.
YOUNG_SECONDS = 60.0

# Fetches a value and the seconds for which it is valid. Raises CredentialsUnavailable.
Load = Callable[[], Awaitable[tuple[T, float]]]


class Refreshing(Generic[T]):
    """One value, of one event loop. `on_failure` is called for each failed fetch."""

    def __init__(
        self,
        on_failure: Callable[[CredentialsUnavailable], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._value: tuple[T] | None = None
        self._fetched_at = 0.0  # monotonic seconds, as the next two
        self._refresh_at = 0.0
        self._ends_at = 0.0
        self._fetch: asyncio.Task[CredentialsUnavailable | None] | None = None

    async def get(self, load: Load[T]) -> T:
        """Return the value. Raises CredentialsUnavailable without one."""
        now, value = self._monotonic(), self._value
        if value is not None and now < self._ends_at:
            if now >= self._refresh_at:
                self._begin(load)
            return value[0]
        fetch = self._begin(load)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                failure = await asyncio.shield(fetch)
        except TimeoutError:
            raise CredentialsUnavailable(f"none within {WAIT_SECONDS:g} seconds") from None
        if failure is not None:
            raise CredentialsUnavailable(failure.detail) from failure
        assert self._value is not None
        return self._value[0]

    def drop(self) -> bool:
        """Discard a refused value; return False for a new one, which a fetch would return again.

        Also True if another refused request has discarded it.
        """
        if self._value is not None and self._monotonic() - self._fetched_at < YOUNG_SECONDS:
            return False
        self._value = None
        return True

    def _begin(self, load: Load[T]) -> asyncio.Task[CredentialsUnavailable | None]:
        """Return the current fetch; start one if there is none."""
        if self._fetch is None:
            self._fetch = asyncio.get_running_loop().create_task(self._run(load))
        return self._fetch

    async def _run(self, load: Load[T]) -> CredentialsUnavailable | None:
        try:
            value, seconds = await load()
        except CredentialsUnavailable as failure:
            self._refresh_at = self._monotonic() + RETRY_SECONDS
            self._on_failure(failure)
            return failure
        finally:
            self._fetch = None
        now = self._monotonic()
        self._value, self._fetched_at = (value,), now
        self._ends_at = now + seconds - min(MARGIN_SECONDS, seconds / 10)
        self._refresh_at = now + seconds - min(AHEAD_SECONDS, seconds / 2)
        return None
