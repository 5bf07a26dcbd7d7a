"""Requests that register a recording or a picture, or use a link: voices, avatars, scripts.

POST /v1/videos/avatars, /v1/audio/voices, /v1/transcripts/extract (reference 7.5, 7.7, 7.8).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from channels.dialects.validation import check_model
from channels.media import requests
from channels.storable_text import STORABLE, STORABLE_WORDS
from gw.media import fields
from gw.media.fields import url

NAME_CHARACTERS_MAX = 20
# The text of a cloned voice's sample.
SAMPLE_CHARACTERS_MAX = 10_000

_Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_CHARACTERS_MAX,
        pattern=STORABLE,
        description="The name by which people know it.",
    ),
]
_NAME_WORDS = f"a string of 1 to {NAME_CHARACTERS_MAX} characters {STORABLE_WORDS}"
_URL_WORDS = "an http or https URL"


class AvatarBody(Struct, gc=False):
    """An avatar to be made."""

    name: _Name
    source_url: Annotated[
        str,
        Meta(description="An http or https URL of a picture or a film of the person."),
    ]
    source_kind: Annotated[
        requests.AvatarSource | None, Meta(description="What `source_url` is; `image` without it.")
    ] = None


class VoiceBody(Struct, gc=False):
    """A voice to be cloned."""

    model: fields.Model
    name: _Name
    audio_url: Annotated[
        str,
        Meta(description="An http or https URL of a recording of the voice."),
    ]
    text: Annotated[
        Annotated[str, Meta(max_length=SAMPLE_CHARACTERS_MAX)] | None,
        Meta(description="What is spoken in a sample of the voice."),
    ] = None


class TranscriptBody(Struct, gc=False):
    """A video whose script is wanted."""

    url: Annotated[str, Meta(description="A link to a short video, which the upstream fetches.")]
    model: Annotated[
        fields.Model | None, Meta(description="The model; without it the first of its kind.")
    ] = None
    language: Annotated[fields.Word | None, Meta(description="The language that is spoken.")] = None


_AVATAR = fields.FieldTable(
    AvatarBody,
    {"name": _NAME_WORDS, "source_url": _URL_WORDS, "source_kind": "image or video"},
)
_VOICE = fields.FieldTable(
    VoiceBody,
    {
        "model": fields.MODEL_WORDS,
        "name": _NAME_WORDS,
        "audio_url": _URL_WORDS,
        "text": f"a string of at most {SAMPLE_CHARACTERS_MAX} characters",
    },
)
_TRANSCRIPT = fields.FieldTable(
    TranscriptBody, {"url": _URL_WORDS, "model": fields.MODEL_WORDS, "language": fields.WORD_WORDS}
)


def read_avatar(body: bytes) -> requests.AvatarRequest:
    """Validate a body. Raises InvalidRequest."""
    read = _AVATAR.read(body)
    return requests.AvatarRequest(
        name=read.name,
        source_url=url("source_url", read.source_url),
        source_kind=read.source_kind or "image",
    )


def read_voice(body: bytes) -> requests.VoiceRequest:
    """Validate a body. Raises InvalidRequest."""
    read = _VOICE.read(body)
    return requests.VoiceRequest(
        model=check_model(read.model),
        name=read.name,
        audio_url=url("audio_url", read.audio_url),
        text=read.text,
    )


def read_transcript(body: bytes, default_model: str) -> requests.TranscriptRequest:
    """Validate a body, with the default model if it names none. Raises InvalidRequest."""
    read = _TRANSCRIPT.read(body)
    return requests.TranscriptRequest(
        model=default_model if read.model is None else check_model(read.model),
        url=url("url", read.url),
        language=read.language,
    )
