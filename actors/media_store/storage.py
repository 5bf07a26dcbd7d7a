"""Where copies are put, whatever it is: a folder or a bucket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from actors.media_store.copies import Copy, Kept
from actors.media_store.store import Progress


class StorageFault(Exception):
    """The place does not take or give it at this moment."""


class Busy(StorageFault):
    """Another process, frozen perhaps, still writes this copy."""


class Lost(StorageFault):
    """What was safe of a copy is not there any more: it begins anew."""


class LocalFile(Protocol):
    """A copy that is read from here."""

    def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`, as they are taken. Raises RoomFault."""

    async def close(self) -> None:
        """Enough of it."""


class Writing(Protocol):
    """A copy that is being written, from byte `done` on. Its methods raise RoomFault."""

    done: int  # bytes that have been taken

    async def write(self, piece: bytes) -> None:
        """Take more; whoever calls waits until there is room for the next."""

    async def restart(self) -> None:
        """Forget what there is of it."""

    async def save(self) -> Progress | None:
        """Make safe what has been taken, and say so; None where that must wait for more."""

    async def finish(self, content_type: str) -> None:
        """All of it is here: make it one file."""

    async def close(self) -> None:
        """Let go of it, finished or not."""


class CopyStorage(Protocol):
    """A place for copies. Its methods raise RoomFault."""

    async def open(self, copy: Copy) -> Writing:
        """Go on with a copy where it was left."""

    async def remove(self, copy: Copy) -> None:
        """Take it away, with all that was ever written of it; nothing there is no error."""

    async def served(self, kept: Kept) -> LocalFile | str:
        """A copy to be read, or the link where whoever may have it fetches it."""

    async def close(self) -> None:
        """Nothing more is asked for."""
