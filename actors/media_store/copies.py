"""A copy as it is stored: from where, how far it has come, where it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from channels.media.model import TaskKind
from channels.media.replies import MusicResult, SpeechResult, TaskResult, VideoResult

StoreKind = Literal["local", "s3"]

# Of songs and their pictures in one task: more are left where they are.
FILES_MAX: Final = 32
CONTENT_TYPES: Final = {
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/ogg": "ogg",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/pcm": "pcm",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
}


class SucceededTask(Struct, frozen=True, kw_only=True):
    """A task that has succeeded, as far as its files concern us."""

    job_id: str
    kind: TaskKind
    channel_id: str
    upstream_id: str
    wire: str
    result: TaskResult


class FileSource(Struct, frozen=True, kw_only=True):
    """Where a file is: behind a link, or (`url` None) with the channel, under the task's id."""

    position: int  # among the files of its task
    url: str | None
    content_type: str  # where the upstream states none that we know


class Copy(Struct, frozen=True, kw_only=True):
    """A copy that is to be made, leased to the process that claimed it.

    `done` bytes of it are safe; `size` is the whole file's, as the upstream states it, and
    `validator` its tag or time of change. `upload_id` and `parts` are the bucket's.
    """

    id: str
    job_id: str
    lease: str
    channel_id: str
    wire: str
    upstream_id: str
    url: str | None
    content_type: str
    attempts: int
    done: int
    size: int | None
    validator: str | None
    upload_id: str | None
    parts: tuple[str, ...]
    age_seconds: float  # since it was found


class Kept(Struct, frozen=True, kw_only=True):
    """A copy that is there."""

    id: str
    job_id: str
    position: int
    content_type: str
    size: int
    kept_at: float

    @property
    def file_name(self) -> str:
        """What a client may call it."""
        return f"{self.id}.{CONTENT_TYPES.get(self.content_type, 'bin')}"


def sources_of(made: SucceededTask) -> list[FileSource]:
    """The files of a task, in a fixed order; `results.py` puts the links back by it."""
    result = made.result
    if isinstance(result, VideoResult):
        film = FileSource(position=0, url=result.url, content_type="video/mp4")
        others = enumerate(result.output_files or (), 1)
        return [film] + [
            FileSource(position=position, url=url, content_type="video/mp4")
            for position, file in others
            if position < FILES_MAX and (url := link_in(file)) is not None
        ]
    if isinstance(result, SpeechResult):
        return [FileSource(position=0, url=result.url, content_type="audio/mpeg")]
    if isinstance(result, MusicResult):
        found = [
            FileSource(position=position, url=url, content_type=content_type)
            for position, url, content_type in _songs(result)
        ]
        return [source for source in found if source.url is not None]
    return []


def link_in(file: Any) -> str | None:
    """The link of an entry of `output_files`, which is what an upstream made of it."""
    url = file.get("url") if isinstance(file, dict) else None
    return url if isinstance(url, str) else None


def _songs(result: MusicResult) -> Iterator[tuple[int, str | None, str]]:
    """Of each song its sound at an even position and its picture behind it."""
    for number, track in enumerate(result.tracks[: FILES_MAX // 2]):
        yield 2 * number, track.audio_url, "audio/mpeg"
        yield 2 * number + 1, track.image_url, "image/jpeg"
