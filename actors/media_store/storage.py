"""The interface of what copies are put into: a folder or a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from actors.media_store.store import Copy, Kept, Progress
from actors.store.database import carried_through


class StorageFault(Exception):
    """The storage cannot be written or read at this moment."""


class Busy(StorageFault):
    """Another process, frozen perhaps, still writes this copy."""


class Lost(StorageFault):
    """What was safe of a copy is not there any more: it begins anew."""


class LocalFile(Protocol):
    """A copy that the gateway reads and serves itself."""

    def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, as they are taken. Raises StorageFault."""

    async def close(self) -> None:
        """Close the file."""


class Writing(Protocol):
    """A copy that is being written, from byte `done` on. Its methods raise StorageFault."""

    done: int  # bytes that have been taken

    async def write(self, piece: bytes) -> None:
        """Take more; returns when there is room for the next."""

    async def restart(self) -> None:
        """Forget what there is of it."""

    async def save(self) -> Progress | None:
        """Make safe what has been taken; None where that must wait for more."""

    async def finish(self, content_type: str) -> None:
        """All of it is here: make it one file."""

    async def close(self) -> None:
        """Release the file, finished or not."""


class CopyStorage(Protocol):
    """Keeps copies. Its methods raise StorageFault."""

    async def open(self, copy: Copy) -> Writing:
        """Go on with a copy where it was left."""

    async def remove(self, copy: Copy) -> None:
        """Delete a copy, with all that was ever written of it; nothing there is no error."""

    async def served(self, kept: Kept) -> LocalFile | str:
        """A copy to be read, or a link to it that the client is redirected to."""

    async def close(self) -> None:
        """End the storage's threads and connections."""


# Blocking work in a thread, carried through even when its caller is cancelled.
#
# Else a block that a thread still writes could be written beside the next one.

T = TypeVar("T")


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """The result of `work`, or what it raises; a cancellation waits for its end."""

    async def run() -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return await carried_through(run())
