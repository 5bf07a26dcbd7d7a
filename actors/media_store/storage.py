"""The storage of copies: the interface of a folder (`folder.py`) and a bucket (`bucket.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from actors.media_store.copies import Copy, CopyProgress, Kept
from actors.store.session import carried_through

T = TypeVar("T")
THREADS: Final = 4  # of a storage


class StorageFault(Exception):
    """The storage cannot be written or read now."""


class Busy(StorageFault):
    """Another process, perhaps a frozen one, still writes this copy."""


class Lost(StorageFault):
    """The stored part of a copy is missing: it starts again."""


class LocalFile(Protocol):
    """A copy that the gateway reads and serves itself."""

    def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to `end` on demand. Raises StorageFault."""

    async def close(self) -> None:
        """Close the file."""


class Writing(Protocol):
    """A copy being written, from byte `done` on. Its methods raise StorageFault."""

    done: int  # bytes that were taken

    async def write(self, piece: bytes) -> None:
        """Take a piece; returns when there is room for the next."""

    async def restart(self) -> None:
        """Discard the stored part."""

    async def save(self) -> CopyProgress | None:
        """Store durably what was taken; None if that must wait for more."""

    async def finish(self, content_type: str) -> None:
        """Complete the file."""

    async def close(self) -> None:
        """Release the file, finished or not."""


class CopyStorage(Protocol):
    """Stores copies. Its methods raise StorageFault."""

    async def open(self, copy: Copy) -> Writing:
        """Continue a copy where it stopped."""

    async def remove(self, copy: Copy) -> None:
        """Delete a copy, with all parts ever written; a missing one is no error."""

    async def served(self, kept: Kept) -> LocalFile | str:
        """Return a copy for reading, or a link to which the client is redirected."""

    async def close(self) -> None:
        """End the storage's threads and connections."""


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its error; a cancellation waits for its end.

    Otherwise a block still being written by a thread could be written beside the next one.
    """

    async def run() -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return await carried_through(run())
