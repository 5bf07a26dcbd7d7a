"""The `suno` dialect: two songs per task, in an envelope of `{code, message, data}`."""

from __future__ import annotations

from typing import Any

from channels.dialects.error_body import message_in
from channels.media.canonical import (
    Accepted,
    MusicRequest,
    NotFound,
    PollReply,
    Refused,
    Submission,
    SubmitReply,
    Track,
    Trouble,
)
from channels.media.model import (
    BaseDialect,
    Exchange,
    MediaRequest,
    MediaResponse,
    TaskKind,
    segment,
)
from channels.media.outcomes import (
    LYRICS_CHARACTERS_MAX,
    entries,
    identifier,
    is_ok,
    json_of,
    link,
    member,
    number,
    poll_trouble,
    polled,
    refusal,
    text,
    unusable,
    word,
)
from channels.media.plain import TRACKS_MAX, music_result
from channels.media.plain_submit import encoded, post

SUBMIT = "/suno/submit/music"
FETCH = "/suno/fetch"
# The code of an unknown task, with a status of success or of an error.
LOST = "task_not_exist"
LOST_STATUSES = (200, 400)


class Suno(BaseDialect):
    """Serves `music`."""

    name = "suno"

    def submit(self, submission: Submission, *, idempotency_key: str) -> Exchange[SubmitReply]:
        if not isinstance(submission, MusicRequest):
            self.not_served(submission)
        body = encoded(_body(submission))
        return post(SUBMIT, body, _accepted, idempotency_key=idempotency_key)

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
        request = MediaRequest(method="GET", path=f"{FETCH}/{segment(upstream_id)}")
        return Exchange(request=request, read=_read)


def _body(request: MusicRequest) -> dict[str, Any]:
    fields = {
        "mv": request.model,
        "gpt_description_prompt": request.prompt,
        "prompt": request.lyrics,
        "title": request.title,
        "tags": request.tags,
        "negative_tags": request.negative_tags,
        "make_instrumental": request.instrumental,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _is_success(value: Any) -> bool:
    return word(member(value, "code")).lower() == "success"


def _accepted(response: MediaResponse) -> SubmitReply:
    if not is_ok(response):
        return refusal(response)
    value = json_of(response)
    if member(value, "code") is None:
        return unusable("no code")
    if not _is_success(value):
        return Refused(status=400, message=message_in(value))
    upstream_id = identifier(member(value, "data"))
    return unusable("no id") if upstream_id is None else Accepted(upstream_id)


def _read(response: MediaResponse) -> PollReply:
    value = json_of(response)
    if response.status in LOST_STATUSES and word(member(value, "code")).lower() == LOST:
        return NotFound()
    if (trouble := poll_trouble(response)) is not None:
        return trouble
    data = member(value, "data")
    if not isinstance(data, dict):
        return Trouble(reason=message_in(value) or "no task", status=response.status)
    return polled(
        data.get("status"),
        result=music_result(_tracks(data.get("data")), now=response.received_at),
        progress=data.get("progress"),
        error=data.get("fail_reason"),
    )


def _tracks(value: Any) -> tuple[Track, ...]:
    return tuple(
        Track(
            clip_id=identifier(one.get("id")),
            title=text(one.get("title")),
            duration_sec=number(member(one, "metadata", "duration")),
            audio_url=link(one.get("audio_url")),
            image_url=link(one.get("image_url")),
            lyrics=text(member(one, "metadata", "prompt"), LYRICS_CHARACTERS_MAX),
        )
        for one in entries(value)[:TRACKS_MAX]
    )
