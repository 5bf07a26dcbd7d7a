"""Recordings as response bodies, and the content types of the formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from channels.media import model, outcomes, replies, requests, results

CONTENT_TYPES: Mapping[requests.AudioFormat, str] = MappingProxyType(
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


def audio_of(
    response_format: requests.AudioFormat, response: model.MediaResponse
) -> replies.SubmitReply:
    """Return the recording of a response, with its declared type or that of the format.

    Pages and JSON objects are no recordings, whatever the status.
    """
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    declared = response.headers.get("content-type", "").strip()
    kind = declared.lower()
    if response.is_cut_off or not response.body:
        return outcomes.unusable("no sound, or too much of it")
    if kind.startswith(("text/", "image/", "multipart/")) or "json" in kind or "xml" in kind:
        return outcomes.unusable(f"no sound but {declared}")
    content_type = declared if _AUDIO.fullmatch(declared) else CONTENT_TYPES[response_format]
    return replies.Done(results.SpeechAudio(content_type=content_type, data=response.body))
