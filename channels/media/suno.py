"""The `suno` dialect: two songs per task, in an envelope of `{code, message, data}`."""

from __future__ import annotations

from channels.dialects.error_body import message_in
from channels.media import model, outcomes, replies, requests, results, values
from channels.media.plain.bodies import encoded
from channels.media.plain.polls import TRACKS_MAX, music_result
from channels.media.plain.submits import post

SUBMIT = "/suno/submit/music"
FETCH = "/suno/fetch"
# The code of an unknown task, with a status of success or of an error.
LOST = "task_not_exist"
LOST_STATUSES = (200, 400)


class Suno(model.BaseDialect):
    """Serves `music`."""

    name = "suno"

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        if not isinstance(submission, requests.MusicRequest):
            self.not_served(submission)
        body = encoded(_body(submission))
        return post(SUBMIT, body, _accepted, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        request = model.MediaRequest(method="GET", path=f"{FETCH}/{model.segment(upstream_id)}")
        return model.Exchange(request=request, read=_read)


def _body(request: requests.MusicRequest) -> dict[str, object]:
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


def _is_success(value: object) -> bool:
    return values.word(values.member(value, "code")).lower() == "success"


def _accepted(response: model.MediaResponse) -> replies.SubmitReply:
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    value = values.json_of(response)
    if values.member(value, "code") is None:
        return outcomes.unusable("no code")
    if not _is_success(value):
        return replies.Refused(status=400, message=message_in(value))
    upstream_id = values.identifier(values.member(value, "data"))
    return outcomes.unusable("no id") if upstream_id is None else replies.Accepted(upstream_id)


def _read(response: model.MediaResponse) -> replies.PollReply:
    value = values.json_of(response)
    if (
        response.status in LOST_STATUSES
        and values.word(values.member(value, "code")).lower() == LOST
    ):
        return replies.NotFound()
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    data = values.member(value, "data")
    if not isinstance(data, dict):
        return replies.Trouble(reason=message_in(value) or "no task", status=response.status)
    return outcomes.polled(
        data.get("status"),
        result=music_result(_tracks(data.get("data")), now=response.received_at),
        progress=data.get("progress"),
        error=data.get("fail_reason"),
    )


def _tracks(value: object) -> tuple[results.Track, ...]:
    return tuple(
        results.Track(
            clip_id=values.identifier(one.get("id")),
            title=values.text(one.get("title")),
            duration_sec=values.number(values.member(one, "metadata", "duration")),
            audio_url=values.link(one.get("audio_url")),
            image_url=values.link(one.get("image_url")),
            lyrics=values.text(
                values.member(one, "metadata", "prompt"), values.LYRICS_CHARACTERS_MAX
            ),
        )
        for one in values.entries(value)[:TRACKS_MAX]
    )
