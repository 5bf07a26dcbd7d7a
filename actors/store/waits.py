"""How long a request waits for the database.

A statement may run as long as its pool allows; a client does not wait for that. A frozen server
keeps its connections open and sends nothing, so only its silence shows it. Storing an upstream's
result has no timeout: it would be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.clock import Clock
from actors.store.errors import StoreUnavailable

T = TypeVar("T")

# A read before a response takes milliseconds.
READ_SECONDS = 2.0
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0


async def in_time(reading: Awaitable[T]) -> T:
    """Limit a read that a client waits for. Raises StoreUnavailable after `READ_SECONDS`."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await reading
    except TimeoutError:
        raise StoreUnavailable(f"the database has been silent for {READ_SECONDS:g} s") from None


async def until_stored(
    store: Callable[[], Awaitable[T]], clock: Clock, failed: Callable[[StoreUnavailable], None]
) -> T:
    """Retry storing something that must not be lost until the database is available.

    `store` must be idempotent; `failed` gets each failure. Other errors of `store` are raised.
    """
    backoff = BACKOFF_FIRST_SECONDS
    while True:
        try:
            return await store()
        except StoreUnavailable as error:
            failed(error)
            await clock.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_MAX_SECONDS)
