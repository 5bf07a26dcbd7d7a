"""Submits on the plain wire: their requests, and what the first response means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from channels.media.base import segment
from channels.media.model import (
    AUDIO_BYTES_MAX,
    TASK_BYTES_MAX,
    TRANSCRIPT_BYTES_MAX,
    Exchange,
    MediaRequest,
    MediaResponse,
)
from channels.media.outcomes import is_ok, refusal, state_of, task_error, unusable
from channels.media.plain import bodies, paths
from channels.media.plain.audio import audio_of
from channels.media.replies import (
    Accepted,
    Done,
    Failed,
    Refused,
    Segment,
    SubmitReply,
    TranscriptResult,
    VoiceResult,
)
from channels.media.requests import (
    AvatarRequest,
    ContentItem,
    GeneralVideo,
    MusicRequest,
    SpeechRequest,
    TranscriptRequest,
    Video,
    VoiceRequest,
)
from channels.media.values import entries, identifier, json_of, member, number, text, word
from channels.text import fit

Outcome = SubmitReply | Exchange[SubmitReply]

# Between two looks at a script that is being made.
TRANSCRIPT_PAUSE_SECONDS = 1.0


def post(
    path: str,
    body: bytes,
    read: Callable[[MediaResponse], Outcome],
    *,
    idempotency_key: str,
    response_bytes_max: int = TASK_BYTES_MAX,
) -> Exchange[SubmitReply]:
    """A submit; the upstream gets the task's id as its idempotency key."""
    request = MediaRequest(
        method="POST", path=path, headers=(("Idempotency-Key", idempotency_key),), body=body
    )
    return Exchange(request=request, read=read, response_bytes_max=response_bytes_max)


def accepted(response: MediaResponse) -> SubmitReply:
    """The response `{id, …}` of a task that has begun."""
    if not is_ok(response):
        return refusal(response)
    upstream_id = identifier(member(json_of(response), "id"))
    return unusable("no id") if upstream_id is None else Accepted(upstream_id)


def video(request: Video, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for a film, its images registered first where the model wants that."""
    if isinstance(request, GeneralVideo) and request.registers_images:
        return _next_image(request, idempotency_key, 0)
    body = bodies.encoded(bodies.video(request))
    return post(paths.VIDEOS, body, accepted, idempotency_key=idempotency_key)


def _next_image(request: GeneralVideo, key: str, position: int) -> Exchange[SubmitReply]:
    """Register the first image from a position on; ask for the film where there is none."""
    content = request.content
    while position < len(content) and content[position].type != "image_url":
        position += 1
    if position == len(content):
        body = bodies.encoded(bodies.video(request))
        return post(paths.VIDEOS, body, accepted, idempotency_key=key)
    asset = {
        "model": request.model,
        "type": "image",
        "url": content[position].value,
        "portrait_auth": bool(request.portrait_auth),
    }
    return post(
        paths.ASSETS,
        bodies.encoded(asset),
        partial(_registered, request, key, position),
        idempotency_key=f"{key}-{position}",
    )


def _registered(request: GeneralVideo, key: str, position: int, response: MediaResponse) -> Outcome:
    reply = accepted(response)
    if isinstance(reply, Refused):  # the image is to blame, and the client chose it
        return Refused(status=400, message=reply.message, is_rejected=True)
    if not isinstance(reply, Accepted):
        return reply
    item = request.content[position].with_url(f"asset://{reply.upstream_id}")
    content: tuple[ContentItem, ...] = (
        *request.content[:position],
        item,
        *request.content[position + 1 :],
    )
    return _next_image(replace(request, content=content), key, position + 1)


def music(request: MusicRequest, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for songs."""
    body = bodies.encoded(bodies.without_nothing(request))
    return post(paths.MUSIC, body, accepted, idempotency_key=idempotency_key)


def avatar(request: AvatarRequest, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for an avatar."""
    body = bodies.encoded(bodies.without_nothing(request))
    return post(paths.AVATARS, body, accepted, idempotency_key=idempotency_key)


def speech(request: SpeechRequest, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for a recording: the sound itself, or a task."""
    fields = bodies.without_nothing(request, leaves_out=("is_async",))
    if request.is_async:
        body = bodies.encoded(fields | {"async": True})
        return post(paths.SPEECH, body, accepted, idempotency_key=idempotency_key)
    return post(
        paths.SPEECH,
        bodies.encoded(fields),
        partial(audio_of, request.response_format),
        idempotency_key=idempotency_key,
        response_bytes_max=AUDIO_BYTES_MAX,
    )


def voice(request: VoiceRequest, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for a voice, which is there at once."""

    def read(response: MediaResponse) -> SubmitReply:
        reply = accepted(response)
        if not isinstance(reply, Accepted):
            return reply
        return Done(VoiceResult(upstream_id=reply.upstream_id))

    body = bodies.encoded(bodies.without_nothing(request))
    return post(paths.VOICES, body, read, idempotency_key=idempotency_key)


def transcript(request: TranscriptRequest, *, idempotency_key: str) -> Exchange[SubmitReply]:
    """Ask for a script; where it is not there at once, look every second until it is."""

    def read(response: MediaResponse) -> Outcome:
        if not is_ok(response):
            return refusal(response)
        value = json_of(response)
        if (ended := _ended(value)) is not None:
            return ended
        upstream_id = identifier(member(value, "id"))
        return unusable("no id") if upstream_id is None else _looking(upstream_id)

    return post(
        paths.TRANSCRIPTS,
        bodies.encoded(bodies.without_nothing(request)),
        read,
        idempotency_key=idempotency_key,
        response_bytes_max=TRANSCRIPT_BYTES_MAX,
    )


def _looking(upstream_id: str) -> Exchange[SubmitReply]:
    """Poll a script; poll again after any response that is not its end."""

    def read(response: MediaResponse) -> Outcome:
        ended = _ended(json_of(response)) if is_ok(response) else None
        return looking if ended is None else ended

    looking: Exchange[SubmitReply] = Exchange(
        request=MediaRequest(method="GET", path=f"{paths.TRANSCRIPTS}/{segment(upstream_id)}"),
        read=read,
        response_bytes_max=TRANSCRIPT_BYTES_MAX,
        after_seconds=TRANSCRIPT_PAUSE_SECONDS,
        repeats=True,
    )
    return looking


def _ended(value: Any) -> SubmitReply | None:
    """A script, or why there will be none; None while it is being made."""
    state = state_of(word(member(value, "status")))
    if state in ("failed", "cancelled", "expired"):
        error = task_error(member(value, "error"), state=state)
        return Failed(status=502, message=error.message, is_final=True)
    script = member(value, "text")
    if not isinstance(script, str):
        return Failed(status=502, message=_NO_TEXT, is_final=True) if state == "succeeded" else None
    return Done(
        TranscriptResult(
            text=fit(script, TRANSCRIPT_BYTES_MAX),
            title=text(member(value, "title")),
            language=text(member(value, "language")),
            duration_sec=number(member(value, "duration_sec")),
            segments=tuple(
                Segment(
                    start=number(one.get("start")),
                    end=number(one.get("end")),
                    text=text(one.get("text"), TRANSCRIPT_BYTES_MAX) or "",
                )
                for one in entries(member(value, "segments"))
            ),
        )
    )


_NO_TEXT = "The upstream reported success without a script."
