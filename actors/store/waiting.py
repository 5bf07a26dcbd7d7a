"""How long a request waits for the database.

A statement may run for as long as its pool allows; a client does not wait for that. A server that
is frozen keeps its connections open and says nothing, so it is only known by its silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from actors.store.errors import StoreUnavailable

T = TypeVar("T")

# A read that stands before a reply is a matter of milliseconds.
READ_SECONDS = 2.0


async def in_time(reading: Awaitable[T]) -> T:
    """Wait for a read that a client waits for. Raises StoreUnavailable after `READ_SECONDS`."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await reading
    except TimeoutError:
        raise StoreUnavailable(f"the database has been silent for {READ_SECONDS:g} s") from None
