"""Results of media upstreams, in the gateway's own form.

All texts are bounded and storable (`channels/storable_text.py`), and not redacted yet
(`channels/redaction.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct


class VideoResult(Struct, frozen=True, kw_only=True, tag="video"):
    """A video. `url` None: the upstream has no link for it, and the gateway serves it itself.

    `expires_at` is in Unix seconds; None: neither the upstream nor the link states it.
    `output_files` are the upstream's JSON values. `milliseconds` is the billed length; None before
    that is known.
    """

    url: str | None
    expires_at: float | None = None
    output_files: list[Any] | None = None
    milliseconds: int | None = None


class Track(Struct, frozen=True, kw_only=True):
    """A song. Members that the upstream omits are None."""

    clip_id: Annotated[str | None, Meta(description="The upstream's id of the song.")] = None
    title: Annotated[str | None, Meta(description="Its title.")] = None
    duration_sec: Annotated[int | float | None, Meta(description="Its seconds.")] = None
    audio_url: Annotated[str | None, Meta(description="A link to the recording.")] = None
    image_url: Annotated[str | None, Meta(description="A link to a picture.")] = None
    lyrics: Annotated[str | None, Meta(description="Its words.")] = None


class MusicResult(Struct, frozen=True, kw_only=True, tag="music"):
    """Songs in the upstream's order, at least one with an audio link."""

    tracks: tuple[Track, ...]
    expires_at: float | None = None


class SpeechResult(Struct, frozen=True, kw_only=True, tag="speech"):
    """A recording behind a link."""

    url: str
    expires_at: float | None = None


class AvatarResult(Struct, frozen=True, kw_only=True, tag="avatar"):
    """An avatar that is ready; `upstream_id` is its id in videos."""

    upstream_id: str


class VoiceResult(Struct, frozen=True, kw_only=True, tag="voice"):
    """A voice that is ready; `upstream_id` is its id in speech and videos."""

    upstream_id: str


class Segment(Struct, frozen=True, kw_only=True):
    """A segment of a script with its start and end in seconds."""

    start: Annotated[int | float | None, Meta(description="Where it begins, in seconds.")]
    end: Annotated[int | float | None, Meta(description="Where it ends, in seconds.")]
    text: Annotated[str, Meta(description="What is said.")]


class TranscriptResult(Struct, frozen=True, kw_only=True, tag="transcript"):
    """A script."""

    text: str
    title: str | None = None
    language: str | None = None
    duration_sec: int | float | None = None
    segments: tuple[Segment, ...] = ()


class SpeechAudio(Struct, frozen=True, kw_only=True, tag="speech_audio"):
    """A recording as the upstream sent it: bytes, or their hexadecimal digits."""

    content_type: str
    data: bytes
    is_hex: bool = False

    def pieces(self, size: int = 256 * 1024) -> Iterator[bytes]:
        """Yield the recording in pieces of `size` bytes, so that decoding one is quick."""
        step = size * 2 if self.is_hex else size
        view = memoryview(self.data)
        for start in range(0, len(view), step):
            piece = bytes(view[start : start + step])
            yield bytes.fromhex(piece.decode("ascii")) if self.is_hex else piece


TaskResult: TypeAlias = VideoResult | MusicResult | SpeechResult | AvatarResult
ImmediateResult: TypeAlias = VoiceResult | TranscriptResult | SpeechAudio
