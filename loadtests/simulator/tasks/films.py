"""The `ark` and `openai` dialects: films.

Of Volcengine's and ModelArk's `ark`: ids that begin with `cgt-`, an `error` that is null where
there is none, lengths in frames where frames were asked for, links that live a day from the task's
last change, and a DELETE that cancels what is queued, forgets what is over and refuses what runs.

Of `openai`: bytes that are fetched with the key, not by a link, and are refused until the film is
there and after it has expired; lengths as texts and only some of them, sizes in pixels.
"""

from __future__ import annotations

from typing import Final, Literal

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.dialects.base import error_type
from loadtests.simulator.files import Reply, part_of
from loadtests.simulator.tasks.call import DAY, SUBMIT, Call, Json, Seconds, Text, Wire, film_of
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

FRAMES_PER_SECOND: Final = 24
USUAL_SECONDS: Final = 5.0
ARK_CODES: Final = {
    400: ("InvalidParameter", "BadRequest"),
    401: ("AuthenticationError", "Unauthorized"),
    403: ("AccessDenied", "Forbidden"),
    404: ("ResourceNotFound", "NotFound"),
    409: ("InvalidAction", "Conflict"),
    429: ("RequestBurstTooFast", "TooManyRequests"),
}


def _ark_error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    usual, kind = ARK_CODES.get(status, ("InternalServiceError", "InternalServerError"))
    result = {"code": code or usual, "message": message, "param": "", "type": kind}
    return status, {"error": result}


ARK: Final = Wire("ark", _ark_error)
_ARK_FILM = shape(
    model=Text,
    content=list[Json],
    resolution=Literal["480p", "720p", "1080p", "2k", "4k"] | None,
    ratio=str | None,
    frames=Seconds | None,
    duration=Seconds | None,
)


@ARK.serves(SUBMIT, "POST /api/v3/contents/generations/tasks", _ARK_FILM)
def submit_ark(call: Call) -> Json:
    body, frames = call.body, call.body.get("frames")
    if not any(item.get("type") == "image_url" or item.get("text") for item in body["content"]):
        raise Refusal(400, "content: a text or an image is required")
    seconds = frames / FRAMES_PER_SECOND if frames else body.get("duration") or USUAL_SECONDS
    requested = {"resolution": body.get("resolution", "720p"), "ratio": body.get("ratio", "16:9")}
    return {"id": call.begin("video", "cgt-", seconds, frames=frames, requested=requested).id}


@ARK.serves("poll", "GET /api/v3/contents/generations/tasks/*")
def poll_ark(call: Call) -> Json:
    task = call.task()
    shown: Json = {
        "id": task.id,
        "model": task.model,
        "status": task.state(call.now),
        "error": task.error if task.has_failed(call.now) else None,
        "created_at": int(task.created_at),
        "updated_at": int(task.updated_at(call.now)),
    }
    if shown["status"] != SUCCEEDED:
        return shown
    tokens, frames = int(task.made_seconds * FRAMES_PER_SECOND * 900), task.facts["frames"]
    return {
        **shown,
        **task.facts["requested"],
        **({"frames": int(frames)} if frames else {"duration": task.reported_seconds}),
        "content": {"video_url": call.link(task, film_of(task), DAY)[0]},
        "seed": 7,
        "framespersecond": FRAMES_PER_SECOND,
        "usage": {"completion_tokens": tokens, "total_tokens": tokens},
    }


@ARK.serves("cancel", "DELETE /api/v3/contents/generations/tasks/*")
def cancel_ark(call: Call) -> Json:
    task = call.task()
    if task.state(call.now) in (CANCELLED, RUNNING):
        raise Refusal(409, "The task can not be cancelled in its current status.")
    if not task.cancel(call.now):
        call.book.remove(task)
    return {}


WORDS: Final = {QUEUED: "queued", RUNNING: "in_progress", SUCCEEDED: "completed", CANCELLED: FAILED}


def _openai_error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    kind, usual = error_type(status)
    usual = "not_found" if status == 404 else usual
    return status, {
        "error": {"message": message, "type": kind, "param": None, "code": code or usual}
    }


OPENAI: Final = Wire("openai", _openai_error)
_OPENAI_FILM = shape(
    model=Text,
    prompt=Text,
    seconds=Literal["4", "8", "12", "16", "20"] | None,
    size=Literal["720x1280", "1280x720", "1024x1792", "1792x1024", "1080x1920", "1920x1080"] | None,
    input_reference=Json | None,
)


@OPENAI.serves(SUBMIT, "POST /v1/videos", _OPENAI_FILM)
def submit_openai(call: Call) -> Json:
    body = call.body
    seconds, size = body.get("seconds", "4"), body.get("size", "720x1280")
    requested = {"prompt": body["prompt"], "size": size, "seconds": seconds}
    return _shown(call.begin("video", "video_", float(seconds), requested=requested), call)


@OPENAI.serves("poll", "GET /v1/videos/*")
def poll_openai(call: Call) -> Json:
    return _shown(call.task(), call)


@OPENAI.serves("file", "GET /v1/videos/*/content")
def content_openai(call: Call) -> Reply:
    task = call.task()
    if task.state(call.now) != SUCCEEDED:
        raise Refusal(404, "Video is not ready yet, use GET /v1/videos/{video_id} to check status.")
    if call.now >= _expires(task, call):
        raise Refusal(404, "Video assets have expired.")
    return part_of(film_of(task), call.exchange)


@OPENAI.serves("cancel", "DELETE /v1/videos/*")
def delete_openai(call: Call) -> Json:
    task = call.task()
    call.book.remove(task)
    return {"id": task.id, "object": "video.deleted", "deleted": True}


def _expires(task: Task, call: Call) -> int:
    return int(task.updated_at(call.now) + task.life(DAY))


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    is_done = state == SUCCEEDED
    shown = {
        "id": task.id,
        "object": "video",
        "model": task.model,
        "status": WORDS.get(state, state),
        "progress": 100 if is_done else task.progress(call.now) or 0,
        "created_at": int(task.created_at),
        "completed_at": int(task.updated_at(call.now)) if is_done else None,
        "expires_at": _expires(task, call) if is_done else None,
        **task.facts["requested"],
        "remixed_from_video_id": None,
        "error": task.error if task.has_failed(call.now) else None,
    }
    if is_done and task.directive.real_seconds is not None:
        shown["seconds"] = str(task.directive.real_seconds)
    return shown
