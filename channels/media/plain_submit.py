"""Submits of the plain wire: their requests, and the parsing of their first responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from channels.media import canonical, model, outcomes
from channels.storable_text import fit

# Recordings as response bodies, and the content types of the formats.

CONTENT_TYPES: Mapping[canonical.AudioFormat, str] = MappingProxyType(
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
    response_format: canonical.AudioFormat, response: model.MediaResponse
) -> canonical.SubmitReply:
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
    return canonical.Done(canonical.SpeechAudio(content_type=content_type, data=response.body))


# The bodies of the plain wire: a client's own fields, by the client's names.

S = TypeVar("S", bound=Struct)


def without_nothing(value: Struct, *, leaves_out: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a request that are not None, by name."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    dropped = set(leaves_out)
    return {name: one for name, one in fields.items() if one is not None and name not in dropped}


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Encode a JSON body."""
    return msgspec.json.encode(fields)


# The fields of a video that only the gateway uses.
_OURS = ("asked_duration", "portrait_auth")


def video_body(request: canonical.Video) -> dict[str, Any]:
    """Return the body for any kind of video."""
    if isinstance(request, canonical.GeneralVideo):
        return _general(request)
    if isinstance(request, canonical.ClipVideo):
        return _clip(request)
    if isinstance(request, canonical.MotionVideo):
        fields = without_nothing(request, leaves_out=_OURS)
        return fields | {"content": _items(request.content)}
    assert isinstance(request, canonical.AvatarVideo | canonical.LipSyncVideo)
    return without_nothing(request, leaves_out=_OURS)


def _general(request: canonical.GeneralVideo) -> dict[str, Any]:
    fields = without_nothing(request, leaves_out=(*_OURS, "others", "content", "registers_images"))
    return fields | dict(request.others) | {"content": _items(request.content)}


def _clip(request: canonical.ClipVideo) -> dict[str, Any]:
    fields = without_nothing(request, leaves_out=(*_OURS, "scene", "materials", "bgm"))
    if request.materials:
        fields["materials"] = [without_nothing(one) for one in request.materials]
    if request.bgm is not None:
        fields["bgm"] = without_nothing(request.bgm)
    return fields


def _items(content: Iterable[canonical.ContentItem]) -> list[Raw]:
    return [item.object for item in content]


# The paths of the plain wire.

VIDEOS = "/v1/videos/generations"
AVATARS = "/v1/videos/avatars"
PRESET_AVATARS = "/v1/videos/avatars/presets"
TEMPLATES = "/v1/videos/clip-templates"
MUSIC = "/v1/music/generations"
SPEECH = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
TRANSCRIPTS = "/v1/transcripts/extract"
ASSETS = "/v1/assets"

TASKS: Mapping[model.TaskKind, str] = MappingProxyType(
    {"video": VIDEOS, "music": MUSIC, "speech": SPEECH, "avatar": AVATARS}
)


Outcome = canonical.SubmitReply | model.Exchange[canonical.SubmitReply]

# The pause between two polls of a script.
TRANSCRIPT_PAUSE_SECONDS = 1.0


def post(
    path: str,
    body: bytes,
    read: Callable[[model.MediaResponse], Outcome],
    *,
    idempotency_key: str,
    response_bytes_max: int | None = None,
) -> model.Exchange[canonical.SubmitReply]:
    """Return a submit; the upstream gets the task's id as its idempotency key."""
    request = model.MediaRequest(
        method="POST", path=path, headers=(("Idempotency-Key", idempotency_key),), body=body
    )
    return model.Exchange(request=request, read=read, response_bytes_max=response_bytes_max)


def accepted(response: model.MediaResponse) -> canonical.SubmitReply:
    """Parse the response `{id, …}` of a task that has begun."""
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    upstream_id = outcomes.identifier(outcomes.member(outcomes.json_of(response), "id"))
    return outcomes.unusable("no id") if upstream_id is None else canonical.Accepted(upstream_id)


def video(
    request: canonical.Video, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request a video; first register its images if the model requires it."""
    if isinstance(request, canonical.GeneralVideo) and request.registers_images:
        return _next_image(request, idempotency_key, 0)
    body = encoded(video_body(request))
    return post(VIDEOS, body, accepted, idempotency_key=idempotency_key)


def _next_image(
    request: canonical.GeneralVideo, key: str, position: int
) -> model.Exchange[canonical.SubmitReply]:
    """Register the first image from a position on; without one request the video."""
    content = request.content
    while position < len(content) and content[position].type != "image_url":
        position += 1
    if position == len(content):
        body = encoded(video_body(request))
        return post(VIDEOS, body, accepted, idempotency_key=key)
    asset = {
        "model": request.model,
        "type": "image",
        "url": content[position].value,
        "portrait_auth": bool(request.portrait_auth),
    }
    return post(
        ASSETS,
        encoded(asset),
        partial(_registered, request, key, position),
        idempotency_key=f"{key}-{position}",
    )


def _registered(
    request: canonical.GeneralVideo, key: str, position: int, response: model.MediaResponse
) -> Outcome:
    reply = accepted(response)
    if isinstance(reply, canonical.Refused):  # the client chose the image, which is at fault
        return canonical.Refused(status=400, message=reply.message, is_rejected=True)
    if not isinstance(reply, canonical.Accepted):
        return reply
    item = request.content[position].with_url(f"asset://{reply.upstream_id}")
    content: tuple[canonical.ContentItem, ...] = (
        *request.content[:position],
        item,
        *request.content[position + 1 :],
    )
    return _next_image(replace(request, content=content), key, position + 1)


def music(
    request: canonical.MusicRequest, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request songs."""
    body = encoded(without_nothing(request))
    return post(MUSIC, body, accepted, idempotency_key=idempotency_key)


def avatar(
    request: canonical.AvatarRequest, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request an avatar."""
    body = encoded(without_nothing(request))
    return post(AVATARS, body, accepted, idempotency_key=idempotency_key)


def speech(
    request: canonical.SpeechRequest, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request a recording, in the response or as a task."""
    fields = without_nothing(request, leaves_out=("is_async",))
    if request.is_async:
        body = encoded(fields | {"async": True})
        return post(SPEECH, body, accepted, idempotency_key=idempotency_key)
    return post(
        SPEECH,
        encoded(fields),
        partial(audio_of, request.response_format),
        idempotency_key=idempotency_key,
        response_bytes_max=model.AUDIO_BYTES_MAX,
    )


def voice(
    request: canonical.VoiceRequest, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request a voice, which the response completes."""

    def read(response: model.MediaResponse) -> canonical.SubmitReply:
        reply = accepted(response)
        if not isinstance(reply, canonical.Accepted):
            return reply
        return canonical.Done(canonical.VoiceResult(upstream_id=reply.upstream_id))

    body = encoded(without_nothing(request))
    return post(VOICES, body, read, idempotency_key=idempotency_key)


def transcript(
    request: canonical.TranscriptRequest, *, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Request a script; poll it every second until it is complete."""

    def read(response: model.MediaResponse) -> Outcome:
        if not outcomes.is_ok(response):
            return outcomes.refusal(response)
        value = outcomes.json_of(response)
        if (ended := _ended(value)) is not None:
            return ended
        upstream_id = outcomes.identifier(outcomes.member(value, "id"))
        return outcomes.unusable("no id") if upstream_id is None else _looking(upstream_id)

    return post(
        TRANSCRIPTS,
        encoded(without_nothing(request)),
        read,
        idempotency_key=idempotency_key,
        response_bytes_max=model.TRANSCRIPT_BYTES_MAX,
    )


def _looking(upstream_id: str) -> model.Exchange[canonical.SubmitReply]:
    """Poll a script; poll again after any response that does not end it."""

    def read(response: model.MediaResponse) -> Outcome:
        ended = _ended(outcomes.json_of(response)) if outcomes.is_ok(response) else None
        return looking if ended is None else ended

    looking: model.Exchange[canonical.SubmitReply] = model.Exchange(
        request=model.MediaRequest(
            method="GET", path=f"{TRANSCRIPTS}/{model.segment(upstream_id)}"
        ),
        read=read,
        response_bytes_max=model.TRANSCRIPT_BYTES_MAX,
        after_seconds=TRANSCRIPT_PAUSE_SECONDS,
        repeats=True,
    )
    return looking


def _ended(value: Any) -> canonical.SubmitReply | None:
    """Return a script or its failure; None while it is in progress."""
    state = outcomes.state_of(outcomes.word(outcomes.member(value, "status")))
    if state in ("failed", "cancelled", "expired"):
        error = outcomes.task_error(outcomes.member(value, "error"), state=state)
        return canonical.Failed(status=502, message=error.message, is_final=True)
    script = outcomes.member(value, "text")
    if not isinstance(script, str):
        return (
            canonical.Failed(status=502, message=_NO_TEXT, is_final=True)
            if state == "succeeded"
            else None
        )
    return canonical.Done(
        canonical.TranscriptResult(
            text=fit(script, model.TRANSCRIPT_BYTES_MAX),
            title=outcomes.text(outcomes.member(value, "title")),
            language=outcomes.text(outcomes.member(value, "language")),
            duration_sec=outcomes.number(outcomes.member(value, "duration_sec")),
            segments=tuple(
                canonical.Segment(
                    start=outcomes.number(one.get("start")),
                    end=outcomes.number(one.get("end")),
                    text=outcomes.text(one.get("text"), model.TRANSCRIPT_BYTES_MAX) or "",
                )
                for one in outcomes.entries(outcomes.member(value, "segments"))
            ),
        )
    )


_NO_TEXT = "The upstream reported success without a script."
