"""Blocking work in a thread, carried through even when its caller is cancelled.

Else a block that a thread still writes could be written beside the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from actors.store.session import carried_through

T = TypeVar("T")


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """The result of `work`, or what it raises; a cancellation waits for its end."""

    async def run() -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return await carried_through(run())
