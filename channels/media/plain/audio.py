"""A recording that is the response's body, and the content types of the formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from channels.media.model import MediaResponse
from channels.media.outcomes import is_ok, refusal, unusable
from channels.media.replies import Done, SpeechAudio, SubmitReply
from channels.media.requests import AudioFormat

CONTENT_TYPES: Mapping[AudioFormat, str] = MappingProxyType(
    {
        "mp3": "audio/mpeg",
        "wav": "audio/wav",
        "opus": "audio/ogg",
        "aac": "audio/aac",
        "flac": "audio/flac",
        "pcm": "audio/pcm",
    }
)
_AUDIO = re.compile(r"audio/[\w.+-]{1,60}(?:;[\w.+=; -]{0,60})?", re.ASCII | re.IGNORECASE)


def audio_of(response_format: AudioFormat, response: MediaResponse) -> SubmitReply:
    """The sound of a response: in the declared type, or that of the format where none is declared.

    A page or a JSON object is no sound, whatever its status.
    """
    if not is_ok(response):
        return refusal(response)
    declared = response.headers.get("content-type", "").strip()
    kind = declared.lower()
    if response.is_cut_off or not response.body:
        return unusable("no sound, or too much of it")
    if kind.startswith(("text/", "image/", "multipart/")) or "json" in kind or "xml" in kind:
        return unusable(f"no sound but {declared}")
    content_type = declared if _AUDIO.fullmatch(declared) else CONTENT_TYPES[response_format]
    return Done(SpeechAudio(content_type=content_type, data=response.body))
