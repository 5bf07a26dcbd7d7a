"""A request for speech (contract §6: POST /v1/audio/speech)."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field

from channels.dialects.validation import check_model
from channels.media.canonical import (
    AudioFormat,
    AvatarRequest,
    AvatarSource,
    MusicRequest,
    SpeechRequest,
    TranscriptRequest,
    VoiceRequest,
)
from channels.storable_text import STORABLE, STORABLE_WORDS
from gw.media.reading import (
    FLAG_WORDS,
    LINE_WORDS,
    MODEL_WORDS,
    REFERENCE_WORDS,
    WORD_WORDS,
    FieldTable,
    Line,
    Model,
    Reference,
    Word,
    refuse,
    require,
    url,
)

INPUT_CHARACTERS_MAX = 10_000
ASYNC_INPUT_CHARACTERS_MAX = 50_000
SPEED_LEAST, SPEED_MOST = 0.25, 4


class _SpeechBody(Struct, gc=False):
    model: Model
    input: Annotated[str, Meta(min_length=1, max_length=ASYNC_INPUT_CHARACTERS_MAX)]
    voice: Reference
    response_format: AudioFormat | None = None
    speed: (
        Annotated[int, Meta(ge=1, le=SPEED_MOST)]
        | Annotated[float, Meta(ge=SPEED_LEAST, le=SPEED_MOST)]
        | None
    ) = None
    stream_format: Literal["audio"] | None = None
    is_async: bool | None = field(default=None, name="async")


_SPEECH_TABLE = FieldTable(
    _SpeechBody,
    {
        "model": MODEL_WORDS,
        "input": f"a string of 1 to {INPUT_CHARACTERS_MAX} characters, "
        f"{ASYNC_INPUT_CHARACTERS_MAX} with async",
        "voice": REFERENCE_WORDS,
        "response_format": f"one of {', '.join(get_args(AudioFormat))}",
        "speed": f"a number from {SPEED_LEAST} to {SPEED_MOST}",
        "stream_format": "audio, for recordings are not served as events",
        "async": FLAG_WORDS,
    },
)


def read_speech(body: bytes) -> SpeechRequest:
    """Validate a body. Raises InvalidRequest. The code points of `input` are billed."""
    read = _SPEECH_TABLE.read(body)
    is_async = bool(read.is_async)
    if not is_async and len(read.input) > INPUT_CHARACTERS_MAX:
        refuse("input", f"is longer than {INPUT_CHARACTERS_MAX} characters; send more with async")
    return SpeechRequest(
        model=check_model(read.model),
        input=read.input,
        voice=read.voice,
        response_format=read.response_format or "mp3",
        speed=read.speed,
        is_async=is_async,
    )


# A request for music (spec: Music).

PROMPT_CHARACTERS_MAX = 200
LYRICS_CHARACTERS_MAX = 3000


class _SongBody(Struct, gc=False):
    model: Model
    prompt: Annotated[str, Meta(max_length=PROMPT_CHARACTERS_MAX)] | None = None
    lyrics: Annotated[str, Meta(max_length=LYRICS_CHARACTERS_MAX)] | None = None
    title: Line | None = None
    tags: Line | None = None
    negative_tags: Line | None = None
    instrumental: bool | None = None


_SONG_TABLE = FieldTable(
    _SongBody,
    {
        "model": MODEL_WORDS,
        "prompt": f"a string of at most {PROMPT_CHARACTERS_MAX} characters",
        "lyrics": f"a string of at most {LYRICS_CHARACTERS_MAX} characters",
        "title": LINE_WORDS,
        "tags": LINE_WORDS,
        "negative_tags": LINE_WORDS,
        "instrumental": FLAG_WORDS,
    },
)


def read_music(body: bytes) -> MusicRequest:
    """Validate a body. Raises InvalidRequest.

    With lyrics the prompt is not sent; for an instrumental piece the lyrics are not.
    """
    read = _SONG_TABLE.read(body)
    lyrics = _text_or_none(read.lyrics) if not read.instrumental else None
    prompt = _text_or_none(read.prompt) if lyrics is None else None
    if prompt is None and lyrics is None and not read.instrumental:
        require("prompt", "a text here or in lyrics, unless instrumental is true")
    return MusicRequest(
        model=check_model(read.model),
        prompt=prompt,
        lyrics=lyrics,
        title=read.title,
        tags=read.tags,
        negative_tags=read.negative_tags,
        instrumental=read.instrumental,
    )


def _text_or_none(text: str | None) -> str | None:
    """Return the text, or None if it is absent or blank."""
    return text if text is not None and text.strip() else None


# Requests that register a recording or a picture, or use a link: voices, avatars, scripts.
#
# Spec: Avatars; contract §6: POST /v1/audio/voices, POST /v1/transcripts/extract.

NAME_CHARACTERS_MAX = 20
# The text of a cloned voice's sample.
SAMPLE_CHARACTERS_MAX = 10_000

_Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX, pattern=STORABLE)]
_NAME_WORDS = f"a string of 1 to {NAME_CHARACTERS_MAX} characters {STORABLE_WORDS}"
_URL_WORDS = "an http or https URL"


class _Avatar(Struct, gc=False):
    name: _Name
    source_url: str
    source_kind: AvatarSource | None = None


class _Voice(Struct, gc=False):
    model: Model
    name: _Name
    audio_url: str
    text: Annotated[str, Meta(max_length=SAMPLE_CHARACTERS_MAX)] | None = None


class _Transcript(Struct, gc=False):
    url: str
    model: Model | None = None
    language: Word | None = None


_AVATAR = FieldTable(
    _Avatar,
    {"name": _NAME_WORDS, "source_url": _URL_WORDS, "source_kind": "image or video"},
)
_VOICE = FieldTable(
    _Voice,
    {
        "model": MODEL_WORDS,
        "name": _NAME_WORDS,
        "audio_url": _URL_WORDS,
        "text": f"a string of at most {SAMPLE_CHARACTERS_MAX} characters",
    },
)
_TRANSCRIPT = FieldTable(
    _Transcript, {"url": _URL_WORDS, "model": MODEL_WORDS, "language": WORD_WORDS}
)


def read_avatar(body: bytes) -> AvatarRequest:
    """Validate a body. Raises InvalidRequest."""
    read = _AVATAR.read(body)
    return AvatarRequest(
        name=read.name,
        source_url=url("source_url", read.source_url),
        source_kind=read.source_kind or "image",
    )


def read_voice(body: bytes) -> VoiceRequest:
    """Validate a body. Raises InvalidRequest."""
    read = _VOICE.read(body)
    return VoiceRequest(
        model=check_model(read.model),
        name=read.name,
        audio_url=url("audio_url", read.audio_url),
        text=read.text,
    )


def read_transcript(body: bytes, default_model: str) -> TranscriptRequest:
    """Validate a body, with the default model if it names none. Raises InvalidRequest."""
    read = _TRANSCRIPT.read(body)
    return TranscriptRequest(
        model=default_model if read.model is None else check_model(read.model),
        url=url("url", read.url),
        language=read.language,
    )
