"""A folder of copies: one file each, with every step in a thread.

A copy under way is `NAME.part`, locked by the process that writes it, so that a process wrongly
declared dead keeps others off. Bytes beyond those known to be durable are truncated before it is
continued.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from actors.media_store import storage
from actors.media_store.copies import Copy, CopyProgress, Kept

T = TypeVar("T")
BLOCK_BYTES: Final = 1024 * 1024  # written at once
READ_BYTES: Final = 256 * 1024


class FolderStorage:
    """A CopyStorage below `path`, which is made on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(storage.THREADS, thread_name_prefix="media-folder")

    async def open(self, copy: Copy) -> FolderWriting:
        """See CopyStorage."""
        part = self._path_of(copy.id).with_suffix(".part")
        file = await self._run(_opened, part, copy.done)
        return FolderWriting(file, part, copy, self._run)

    async def remove(self, copy: Copy) -> None:
        """See CopyStorage."""
        await self._run(_removed, self._path_of(copy.id))

    async def served(self, kept: Kept) -> FolderFile:
        """See CopyStorage."""
        path = self._path_of(kept.id)
        return FolderFile(await self._run(os.open, path, os.O_RDONLY | os.O_CLOEXEC), self._run)

    async def close(self) -> None:
        """See CopyStorage."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _path_of(self, copy_id: str) -> Path:
        """Ids are ours, but a file system may not handle all of them in one folder."""
        shelf = sha256(copy_id.encode()).hexdigest()[:2]
        return self._path / shelf / f"{copy_id}.media"

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        try:
            return await storage.in_thread(self._threads, partial(work, *args))
        except OSError as error:
            raise storage.StorageFault(f"{type(error).__name__}: {error.strerror}") from error


class FolderFile:
    """An open file; if removed meanwhile, it can still be read to its end."""

    def __init__(self, file: int, run: Callable[..., Any]) -> None:
        self._file = file
        self._run = run

    async def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        """See LocalFile."""
        while start < end:
            piece = await self._run(os.pread, self._file, min(READ_BYTES, end - start), start)
            if not piece:
                raise storage.StorageFault("the file is shorter than it was")
            start += len(piece)
            yield piece

    async def close(self) -> None:
        """See LocalFile."""
        os.close(self._file)


class FolderWriting:
    """A `.part` file being written."""

    def __init__(self, file: int, part: Path, copy: Copy, run: Callable[..., Any]) -> None:
        self.done = copy.done
        self._file = file
        self._part = part
        self._run = run
        self._block: list[bytes] = []
        self._waiting = 0
        self._written = copy.done
        # The renewal of a claim saves while the copier may be writing.
        self._writing = asyncio.Lock()

    async def write(self, piece: bytes) -> None:
        """See Writing."""
        self._block.append(piece)
        self._waiting += len(piece)
        self.done += len(piece)
        if self._waiting >= BLOCK_BYTES:
            await self._flush()

    async def restart(self) -> None:
        """See Writing."""
        async with self._writing:
            self._block.clear()
            self._waiting = self.done = self._written = 0
            await self._run(os.ftruncate, self._file, 0)
            await self._run(os.lseek, self._file, 0, os.SEEK_SET)

    async def save(self) -> CopyProgress | None:
        """See Writing."""
        await self._flush()
        async with self._writing:
            written = self._written
            await self._run(os.fsync, self._file)
        return CopyProgress(written, None)

    async def finish(self, content_type: str) -> None:
        """See Writing."""
        await self.save()
        await self._run(_renamed, self._part)

    async def close(self) -> None:
        """See Writing."""
        os.close(self._file)  # releases the lock

    async def _flush(self) -> None:
        async with self._writing:
            block = b"".join(self._block)
            self._block.clear()
            self._waiting = 0
            await self._run(_written, self._file, block)
            self._written += len(block)


def _opened(part: Path, done: int) -> int:
    part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_size < done:
            raise storage.Lost("less of it is there than was safe")
        os.ftruncate(file, done)
        os.lseek(file, done, os.SEEK_SET)
    except BlockingIOError as error:
        os.close(file)
        raise storage.Busy("another process writes it") from error
    except BaseException:
        os.close(file)
        raise
    return file


def _written(file: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(file, view) :]


def _renamed(part: Path) -> None:
    part.rename(part.with_suffix(".media"))
    shelf = os.open(part.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(shelf)
    finally:
        os.close(shelf)


def _removed(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".part").unlink(missing_ok=True)
