"""Submits of the plain wire: their requests, and the parsing of their first responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from channels.media import model, outcomes, replies, requests, results, values
from channels.media.plain.bodies import encoded, video_body, without_nothing
from channels.media.recordings import audio_of
from channels.storable_text import fit

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

Outcome = replies.SubmitReply | model.Exchange[replies.SubmitReply]

# The pause between two polls of a script.
TRANSCRIPT_PAUSE_SECONDS = 1.0


def post(
    path: str,
    body: bytes,
    read: Callable[[model.MediaResponse], Outcome],
    *,
    idempotency_key: str,
    response_bytes_max: int | None = None,
) -> model.Exchange[replies.SubmitReply]:
    """Return a submit; the upstream gets the task's id as its idempotency key."""
    request = model.MediaRequest(
        method="POST", path=path, headers=(("Idempotency-Key", idempotency_key),), body=body
    )
    return model.Exchange(request=request, read=read, response_bytes_max=response_bytes_max)


def accepted(response: model.MediaResponse) -> replies.SubmitReply:
    """Parse the response `{id, …}` of a task that has begun."""
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    upstream_id = values.identifier(values.member(values.json_of(response), "id"))
    return outcomes.unusable("no id") if upstream_id is None else replies.Accepted(upstream_id)


def video(request: requests.Video, *, idempotency_key: str) -> model.Exchange[replies.SubmitReply]:
    """Request a video; first register its images if the model requires it."""
    if isinstance(request, requests.GeneralVideo) and request.registers_images:
        return _next_image(request, idempotency_key, 0)
    body = encoded(video_body(request))
    return post(VIDEOS, body, accepted, idempotency_key=idempotency_key)


def _next_image(
    request: requests.GeneralVideo, key: str, position: int
) -> model.Exchange[replies.SubmitReply]:
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
    request: requests.GeneralVideo, key: str, position: int, response: model.MediaResponse
) -> Outcome:
    reply = accepted(response)
    if isinstance(reply, replies.Refused):  # the client chose the image, which is at fault
        return replies.Refused(status=400, message=reply.message, is_rejected=True)
    if not isinstance(reply, replies.Accepted):
        return reply
    item = request.content[position].with_url(f"asset://{reply.upstream_id}")
    content: tuple[requests.ContentItem, ...] = (
        *request.content[:position],
        item,
        *request.content[position + 1 :],
    )
    return _next_image(replace(request, content=content), key, position + 1)


def music(
    request: requests.MusicRequest, *, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
    """Request songs."""
    body = encoded(without_nothing(request))
    return post(MUSIC, body, accepted, idempotency_key=idempotency_key)


def avatar(
    request: requests.AvatarRequest, *, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
    """Request an avatar."""
    body = encoded(without_nothing(request))
    return post(AVATARS, body, accepted, idempotency_key=idempotency_key)


def speech(
    request: requests.SpeechRequest, *, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
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
    request: requests.VoiceRequest, *, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
    """Request a voice, which the response completes."""

    def read(response: model.MediaResponse) -> replies.SubmitReply:
        reply = accepted(response)
        if not isinstance(reply, replies.Accepted):
            return reply
        return replies.Done(results.VoiceResult(upstream_id=reply.upstream_id))

    body = encoded(without_nothing(request))
    return post(VOICES, body, read, idempotency_key=idempotency_key)


def transcript(
    request: requests.TranscriptRequest, *, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
    """Request a script; poll it every second until it is complete."""

    def read(response: model.MediaResponse) -> Outcome:
        if not outcomes.is_ok(response):
            return outcomes.refusal(response)
        value = values.json_of(response)
        if (ended := _ended(value)) is not None:
            return ended
        upstream_id = values.identifier(values.member(value, "id"))
        return outcomes.unusable("no id") if upstream_id is None else _looking(upstream_id)

    return post(
        TRANSCRIPTS,
        encoded(without_nothing(request)),
        read,
        idempotency_key=idempotency_key,
        response_bytes_max=model.TRANSCRIPT_BYTES_MAX,
    )


def _looking(upstream_id: str) -> model.Exchange[replies.SubmitReply]:
    """Poll a script; poll again after any response that does not end it."""

    def read(response: model.MediaResponse) -> Outcome:
        ended = _ended(values.json_of(response)) if outcomes.is_ok(response) else None
        return looking if ended is None else ended

    looking: model.Exchange[replies.SubmitReply] = model.Exchange(
        request=model.MediaRequest(
            method="GET", path=f"{TRANSCRIPTS}/{model.segment(upstream_id)}"
        ),
        read=read,
        response_bytes_max=model.TRANSCRIPT_BYTES_MAX,
        after_seconds=TRANSCRIPT_PAUSE_SECONDS,
        repeats=True,
    )
    return looking


def _ended(value: object) -> replies.SubmitReply | None:
    """Return a script or its failure; None while it is in progress."""
    state = outcomes.state_of(values.word(values.member(value, "status")))
    if state in ("failed", "cancelled", "expired"):
        error = outcomes.task_error(values.member(value, "error"), state=state)
        return replies.Failed(status=502, message=error.message, is_final=True)
    script = values.member(value, "text")
    if not isinstance(script, str):
        return (
            replies.Failed(status=502, message=_NO_TEXT, is_final=True)
            if state == "succeeded"
            else None
        )
    return replies.Done(
        results.TranscriptResult(
            text=fit(script, model.TRANSCRIPT_BYTES_MAX),
            title=values.text(values.member(value, "title")),
            language=values.text(values.member(value, "language")),
            duration_sec=values.number(values.member(value, "duration_sec")),
            segments=tuple(
                results.Segment(
                    start=values.number(one.get("start")),
                    end=values.number(one.get("end")),
                    text=values.text(one.get("text"), model.TRANSCRIPT_BYTES_MAX) or "",
                )
                for one in values.entries(values.member(value, "segments"))
            ),
        )
    )


_NO_TEXT = "The upstream reported success without a script."
