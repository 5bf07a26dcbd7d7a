"""A request for speech (reference 7.7)."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field

from channels.dialects.validation import check_model
from channels.media.requests import AudioFormat, SpeechRequest
from gw.media import fields

INPUT_CHARACTERS_MAX = 10_000
ASYNC_INPUT_CHARACTERS_MAX = 50_000
SPEED_LEAST, SPEED_MOST = 0.25, 4


class SpeechBody(Struct, gc=False):
    """A request for a recording."""

    model: fields.Model
    input: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=ASYNC_INPUT_CHARACTERS_MAX,
            description=f"What is to be spoken, {INPUT_CHARACTERS_MAX} characters at most unless"
            " `async`; its characters are billed.",
        ),
    ]
    voice: Annotated[
        fields.Reference,
        Meta(description="A preset voice, a voice of the account's own, or one of the upstream's."),
    ]
    response_format: Annotated[
        AudioFormat | None, Meta(description="The form of the recording; `mp3` without it.")
    ] = None
    speed: Annotated[
        Annotated[int, Meta(ge=1, le=SPEED_MOST)]
        | Annotated[float, Meta(ge=SPEED_LEAST, le=SPEED_MOST)]
        | None,
        Meta(description="How fast it is spoken; 1 is usual."),
    ] = None
    stream_format: Annotated[
        Literal["audio"] | None, Meta(description="`audio`: recordings are not served as events.")
    ] = None
    is_async: Annotated[
        bool | None,
        Meta(description="True: the response is a task, to be polled."),
    ] = field(default=None, name="async")


_SPEECH_TABLE = fields.FieldTable(
    SpeechBody,
    {
        "model": fields.MODEL_WORDS,
        "input": f"a string of 1 to {INPUT_CHARACTERS_MAX} characters, "
        f"{ASYNC_INPUT_CHARACTERS_MAX} with async",
        "voice": fields.REFERENCE_WORDS,
        "response_format": f"one of {', '.join(get_args(AudioFormat))}",
        "speed": f"a number from {SPEED_LEAST} to {SPEED_MOST}",
        "stream_format": "audio, for recordings are not served as events",
        "async": fields.FLAG_WORDS,
    },
)


def read_speech(body: bytes) -> SpeechRequest:
    """Validate a body. Raises InvalidRequest. The code points of `input` are billed."""
    read = _SPEECH_TABLE.read(body)
    is_async = bool(read.is_async)
    if not is_async and len(read.input) > INPUT_CHARACTERS_MAX:
        fields.refuse(
            "input", f"is longer than {INPUT_CHARACTERS_MAX} characters; send more with async"
        )
    return SpeechRequest(
        model=check_model(read.model),
        input=read.input,
        voice=read.voice,
        response_format=read.response_format or "mp3",
        speed=read.speed,
        is_async=is_async,
    )
