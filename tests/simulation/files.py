"""The files of upstreams in the simulation, and the folder that copies of them are put into.

Each file says of every place in it which place it is, so that a copy with something missing, twice
or of another one is not the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from actors.media_store.copies import Copy, CopyProgress, Kept
from actors.media_store.fetch import FetchFault, FileLocation, Opened
from actors.media_store.storage import Busy, LocalFile, Lost, StorageFault
from channels.errors import UpstreamCut
from tests.simulation.upstreams import Upstreams
from tests.unit.calls.world import FOR_EVER, FakeResponse, Head, Step

PLACES = 200
PIECES = 8


def content_of(url: str) -> bytes:
    """The file behind a link."""
    return b"".join(b"%d of %s\n" % (place, url.encode()) for place in range(PLACES))


@dataclass
class Part:
    """A copy that is not finished; `writer` has it."""

    content: bytearray = field(default_factory=bytearray)
    writer: object | None = None


@dataclass
class Folder:
    """What is there, whichever process wrote it: it survives all of them."""

    parts: dict[str, Part] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def end(self, process: object) -> None:
        """A process is gone, and with it its locks."""
        for part in self.parts.values():
            if part.writer is process:
                part.writer = None


class SimulatedFiles:
    """One process's way to the folder and to the files of upstreams. A CopyStorage."""

    def __init__(self, folder: Folder, upstreams: Upstreams) -> None:
        self._folder = folder
        self._upstreams = upstreams
        self.is_cut = False

    def cut(self) -> None:
        """The process is dead."""
        self.is_cut = True
        self._folder.end(self)

    async def step(self) -> None:
        """One step of the disk. Raises StorageFault."""
        if self.is_cut:
            raise StorageFault("the process is dead")
        await asyncio.sleep(self._upstreams.chance.expovariate(200))
        if self.is_cut:
            raise StorageFault("the process is dead")

    async def open(self, copy: Copy) -> SimulatedWriting:
        await self.step()
        part = self._folder.parts.setdefault(copy.id, Part())
        if part.writer is not None:
            raise Busy("another process writes it")
        if len(part.content) < copy.done:
            raise Lost("less of it is there than was safe")
        part.writer = self
        del part.content[copy.done :]
        return SimulatedWriting(copy, part, self, self._folder)

    async def remove(self, copy: Copy) -> None:
        await self.step()
        self._folder.parts.pop(copy.id, None)
        self._folder.files.pop(copy.id, None)

    async def served(self, kept: Kept) -> LocalFile | str:
        raise AssertionError("nobody fetches one")

    async def close(self) -> None:
        """Nothing is open."""

    @asynccontextmanager
    async def fetch(
        self, location: FileLocation, *, start: int, validator: str | None
    ) -> AsyncIterator[Opened]:
        """Open a file as its channel is in the mood to."""
        chance = self._upstreams.chance
        mood = self._upstreams.mood((urlsplit(location.channel_url).hostname or "").split(".")[0])
        if mood == "healthy" and chance.random() < 0.5:  # large files come in many attempts
            mood = chance.choice(("failing", "hanging", "cutting", "cutting"))
        await asyncio.sleep(chance.expovariate(5))
        if mood == "failing":
            raise FetchFault("status 503")
        content = content_of(location.url)
        if start and (validator is None or chance.random() < 0.2):
            start = 0  # as upstreams may that send what was asked for in part as a whole
        steps: list[Step] = []
        size = len(content) // PIECES
        for at in range(start, len(content), size):
            steps += [chance.expovariate(2), content[at : at + size]]
        if mood in ("hanging", "cutting"):
            steps[chance.randrange(len(steps)) :] = [
                FOR_EVER if mood == "hanging" else UpstreamCut("cut")
            ]
        response = FakeResponse(Head(), steps)
        try:
            tag = f'"{location.url}"' if chance.random() < 0.8 else None
            yield Opened(start, len(content), tag, "video/mp4", response)
        finally:
            response.close()


class SimulatedWriting:
    """A part under way."""

    def __init__(self, copy: Copy, part: Part, files: SimulatedFiles, folder: Folder) -> None:
        self.done = copy.done
        self._id = copy.id
        self._part = part
        self._files = files
        self._folder = folder

    async def write(self, piece: bytes) -> None:
        await self._files.step()
        self._part.content += piece
        self.done += len(piece)

    async def restart(self) -> None:
        await self._files.step()
        self._part.content.clear()
        self.done = 0

    async def save(self) -> CopyProgress | None:
        safe = len(self._part.content)
        await self._files.step()
        return CopyProgress(safe, None)

    async def finish(self, content_type: str) -> None:
        await self._files.step()
        self._folder.files[self._id] = bytes(self._part.content)
        del self._folder.parts[self._id]

    async def close(self) -> None:
        if self._part.writer is self._files:
            self._part.writer = None
