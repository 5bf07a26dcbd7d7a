"""Transcriptions: a form with one recording is sent, its text is received.

Requests and responses are those of `POST /v1/audio/transcriptions` of its official library, in
every response format but a stream. The call is billed by the tokens or seconds that the response
states, else by the file.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects import multipart
from channels.dialects.address import Address
from channels.dialects.error_body import failure_of, member_of
from channels.dialects.logged_parameters import counts
from channels.dialects.multipart import read_form
from channels.dialects.recording_length import SECONDS_MAX, recording_length
from channels.dialects.stated import members_in
from channels.dialects.token_counts import Usage, UsageParts, count_of
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.http.request_writer import BodyPieces
from channels.json.lenient import NULL, read_json

ADDRESS = Address(path="/v1/audio/transcriptions", accept="application/json, text/plain")
FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_TEXT_FORMATS = frozenset(("text", "srt", "vtt"))
_SETTINGS = frozenset(("language", "response_format", "temperature"))
_NAMES = _SETTINGS | {"file", "model", "prompt", "stream"}
# The parts of the form, for the reference.
FORM: Mapping[str, Any] = {
    "type": "object",
    "description": "The parts that the gateway reads; others are forwarded.",
    "required": ["model", "file"],
    "properties": {
        "file": {
            "type": "string",
            "contentMediaType": "application/octet-stream",
            "description": "The recording.",
        },
        "model": {"type": "string", "description": "The model's id."},
        "language": {"type": "string", "description": "The language that is spoken."},
        "prompt": {"type": "string", "description": "What helps to understand it."},
        "temperature": {"type": "string", "description": "A number, in the model's range."},
        "response_format": {
            "description": "The form of the text; `json` without it.",
            "enum": list(FORMATS),
        },
        "stream": {"description": "`false`: there is no stream.", "enum": ["false"]},
    },
    "additionalProperties": True,
}

# The fewest bytes of a second of speech, used for the hold of a recording.
BYTES_PER_SECOND_MIN = 2_000
# Of a text in most languages: a recording takes at least the time to speak it.
TEXT_BYTES_PER_SECOND = 15
# A part of the names of models that state tokens with `json`, and refuse `verbose_json`.
_OF_TOKENS = "-transcribe"


class TranscriptionRequest(multipart.FormRequest, frozen=True, kw_only=True):
    """A checked form.

    `milliseconds`: the length of the recording that follows from its size; None unless it is not
    compressed. `stated_milliseconds`: the length in its container, if that states one.
    """

    file_bytes: int
    is_text: bool  # the client's response is not JSON
    asks_length: bool  # a plain text, of which the upstream is asked for the length as well
    milliseconds: int | None
    stated_milliseconds: int | None

    def body_for(self, body: bytes, upstream_model: str) -> tuple[str, BodyPieces]:
        """See FormRequest. A plain text states no length: it is asked for within JSON."""
        replaced = {"model": upstream_model}
        if self.asks_length:
            is_of_tokens = _OF_TOKENS in upstream_model.lower()
            replaced["response_format"] = "json" if is_of_tokens else "verbose_json"
        return self.written(body, replaced)

    @property
    def milliseconds_max(self) -> int:
        """The length for the hold."""
        if self.milliseconds is not None:
            return self.milliseconds
        by_size = -(-self.file_bytes * 1000 // BYTES_PER_SECOND_MIN)
        return max(by_size, self.stated_milliseconds or 0)


def read_request(body: bytes, content_type: str | None) -> TranscriptionRequest:
    """Parse a form. Raises InvalidRequest with the part at fault."""
    form = read_form(body, content_type, _NAMES)
    model, files, texts = multipart.model_of(form), form.files("file"), form.texts
    if len(files) != 1 or not files[0].size:
        raise InvalidRequest("file: expected one file with a recording in it.", "file")
    named = texts.get("response_format", "json")
    if named not in FORMATS:
        raise InvalidRequest(
            f"response_format: expected one of {', '.join(FORMATS)}.", "response_format"
        )
    if texts.get("stream", "false").lower() != "false":
        raise InvalidRequest(
            "stream: transcriptions are not streamed here; leave it out or send false.", "stream"
        )
    (file,) = files
    head = body[file.start : file.start + _WAVE_HEAD_BYTES]
    milliseconds = _length_of_wave(head, file.size)
    return TranscriptionRequest(
        form=form,
        model=model,
        file_bytes=file.size,
        is_text=named in _TEXT_FORMATS,
        asks_length=named == "text" and milliseconds is None,
        milliseconds=milliseconds,
        stated_milliseconds=milliseconds or recording_length(body, file.start, file.end),
        parameters=multipart.settings_of(form, _SETTINGS)
        | counts(file_bytes=file.size, prompt_characters=len(texts.get("prompt", ""))),
    )


_WAVE_HEAD_BYTES = 44
# Uncompressed formats (integers and floats), whose length follows from the head.
_PCM = frozenset({1, 3})
_CHANNELS_MAX = 8
_SAMPLES_PER_SECOND_MAX = 192_000
_BITS = frozenset({8, 16, 24, 32, 64})


def _length_of_wave(head: bytes, size: int) -> int | None:
    """Return the milliseconds of a WAVE file of this size, by its head; None for any other.

    The client could state a short length to pay less: a head that contradicts itself is rejected,
    because decoders find more sound than it states.
    """
    if len(head) < _WAVE_HEAD_BYTES or head[:4] != b"RIFF" or head[8:16] != b"WAVEfmt ":
        return None
    form, channels, rate, bytes_per_second, block, bits = struct.unpack_from("<HHIIHH", head, 20)
    if (
        form not in _PCM
        or bits not in _BITS
        or not 1 <= channels <= _CHANNELS_MAX
        or rate > _SAMPLES_PER_SECOND_MAX
        or block != channels * bits // 8
        or bytes_per_second != rate * block
        or bytes_per_second < BYTES_PER_SECOND_MIN
    ):
        return None
    return int(-(-(size - _WAVE_HEAD_BYTES) * 1000 // bytes_per_second))


class _StatedTranscription(Struct, gc=False):
    text: msgspec.Raw = NULL
    duration: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


_RESPONSE = msgspec.json.Decoder(_StatedTranscription)
WHAT = "a transcription"


class TranscriptionResponse(Struct, frozen=True):
    """What a response states: its tokens or its length, and its error.

    `spoken_milliseconds` is estimated from its text.
    """

    usage: Usage | None = None
    milliseconds: int | None = None
    spoken_milliseconds: int = 0
    error: str | None = None


def read_response(body: bytes, *, is_text: bool) -> TranscriptionResponse:
    """Parse a whole response, without its text. Raises UpstreamMalformed."""
    if is_text:
        return TranscriptionResponse(
            milliseconds=_last_instant(body), spoken_milliseconds=_spoken(len(body))
        )
    response = members_in(body, _RESPONSE, what=WHAT)
    if bytes(response.text)[:1] != b'"':
        failure = failure_of(response.error)
        if failure is None:
            raise UpstreamMalformed("a transcription without text")
        return TranscriptionResponse(error=failure)
    stated = member_of(response.usage)
    usage = stated if isinstance(stated, dict) else {}
    seconds = usage.get("seconds")
    return TranscriptionResponse(
        usage=_usage(usage),
        milliseconds=_milliseconds(member_of(response.duration) if seconds is None else seconds),
        spoken_milliseconds=_spoken(len(bytes(response.text)) - 2),
    )


def _spoken(text_bytes: int) -> int:
    return text_bytes * 1000 // TEXT_BYTES_PER_SECOND


def is_object(body: bytes) -> bool:
    """Whether a response is JSON: some upstreams have one format whatever they are asked for."""
    return body.lstrip()[:1] == b"{"


def text_of(body: bytes) -> bytes:
    """Return the plain text of a response as JSON that was read; other responses as they are."""
    if not is_object(body):
        return body
    text = read_json(bytes(members_in(body, _RESPONSE, what=WHAT).text))  # of any length
    return body if not isinstance(text, str) else f"{text}\n".encode("utf-8", "replace")


def _usage(stated: Mapping[str, object]) -> Usage | None:
    """Return the tokens of a `usage` member; None unless it states input and output."""
    taken, given = count_of(stated.get("input_tokens")), count_of(stated.get("output_tokens"))
    if taken is None or given is None:
        return None
    details = stated.get("input_token_details")
    audio = count_of(details.get("audio_tokens")) if isinstance(details, dict) else None
    parts = UsageParts(audio_input_tokens=min(audio, taken)) if audio else None
    return Usage(input_tokens=taken, output_tokens=given, parts=parts)


def _milliseconds(seconds: object) -> int | None:
    """Return seconds, a number or its text, in milliseconds, rounded up; None if invalid."""
    try:
        number = float(seconds)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(seconds, bool) or not 0 <= number <= SECONDS_MAX:
        return None
    return ceil(round(number * 1000, 6))


_INSTANT = re.compile(rb"--> (?:(\d{1,3}):)?(\d\d):(\d\d)[.,](\d{3})")
# The end of a subtitle file that contains the last instant.
_TAIL_BYTES = 64 * 1024


def _last_instant(body: bytes) -> int | None:
    """Return the end of the last subtitle in milliseconds; None without subtitles."""
    last = deque(_INSTANT.finditer(body[-_TAIL_BYTES:]), maxlen=1)
    if not last:
        return None
    hours, minutes, seconds, rest = (int(one or 0) for one in last[0].groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
