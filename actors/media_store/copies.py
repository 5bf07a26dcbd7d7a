"""A copy as it is stored: its source, progress and location."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import Struct

from channels.media import results
from channels.media.model import TaskKind

StoreKind = Literal["local", "s3"]

# Limit of songs and their pictures in one task: further ones are not copied.
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
    """A succeeded task, with the data needed for its files."""

    job_id: str
    kind: TaskKind
    channel_id: str
    upstream_id: str
    upstream_protocol: str
    result: results.TaskResult


class FileSource(Struct, frozen=True, kw_only=True):
    """The source of a file: a link, or (`url` None) the channel, under the task's id."""

    position: int  # among the files of its task
    url: str | None
    content_type: str  # if the upstream states no known one


class Copy(Struct, frozen=True, kw_only=True):
    """A copy to be made, claimed by one process.

    `done` bytes of it are stored durably; `size` is the whole file's, as the upstream states it,
    and `validator` its tag or time of change. `upload_id` and `parts` are the bucket's.
    """

    id: str
    job_id: str
    account_id: str
    claim_id: str
    channel_id: str
    upstream_protocol: str
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
    """A copy that is kept."""

    id: str
    job_id: str
    account_id: str
    position: int
    content_type: str
    size: int
    kept_at: float

    @property
    def file_name(self) -> str:
        """Its file name for clients."""
        return f"{self.id}.{CONTENT_TYPES.get(self.content_type, 'bin')}"


def sources_of(made: SucceededTask) -> list[FileSource]:
    """Return the files of a task, in a fixed order, by which `worker.py` inserts the links."""
    result = made.result
    if isinstance(result, results.VideoResult):
        film = FileSource(position=0, url=result.url, content_type="video/mp4")
        others = enumerate(result.output_files or (), 1)
        return [film] + [
            FileSource(position=position, url=url, content_type="video/mp4")
            for position, file in others
            if position < FILES_MAX and (url := link_in(file)) is not None
        ]
    if isinstance(result, results.SpeechResult):
        return [FileSource(position=0, url=result.url, content_type="audio/mpeg")]
    if isinstance(result, results.MusicResult):
        found = [
            FileSource(position=position, url=url, content_type=content_type)
            for position, url, content_type in _songs(result)
        ]
        return [source for source in found if source.url is not None]
    return []


def link_in(file: Any) -> str | None:
    """Return the link of an entry of `output_files`, which the upstream defines."""
    url = file.get("url") if isinstance(file, dict) else None
    return url if isinstance(url, str) else None


def _songs(result: results.MusicResult) -> Iterator[tuple[int, str | None, str]]:
    """Yield each song's sound at an even position, followed by its picture."""
    for number, track in enumerate(result.tracks[: FILES_MAX // 2]):
        yield 2 * number, track.audio_url, "audio/mpeg"
        yield 2 * number + 1, track.image_url, "image/jpeg"


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The durable part of a copy, and the data to resume it."""

    done: int
    validator: str | None
    upload_id: str | None = None
    parts: tuple[str, ...] = ()
