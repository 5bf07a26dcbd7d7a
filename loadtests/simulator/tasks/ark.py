"""The `ark` dialect: Volcengine's and ModelArk's films.

Of its own: ids that begin with `cgt-`, an `error` that is null where there is none, lengths in
frames where frames were asked for, links that live a day from the task's last change, and a DELETE
that cancels what is queued, forgets what is over and refuses what runs.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import bearer, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.tasks.call import (
    DAY,
    Call,
    Json,
    Reply,
    WireRefusal,
    contents_of,
    has_text,
    json_reply,
    number_of,
    ratio_of,
    text_of,
)
from loadtests.simulator.tasks.files import film_file
from loadtests.simulator.tasks.task import QUEUED, SUCCEEDED, Task

FRAMES_PER_SECOND: Final = 24
USUAL_SECONDS: Final = 5.0
RESOLUTIONS: Final = ("480p", "720p", "1080p", "2k", "4k")
CODES: Final = {
    400: ("InvalidParameter", "BadRequest"),
    401: ("AuthenticationError", "Unauthorized"),
    403: ("AccessDenied", "Forbidden"),
    404: ("ResourceNotFound", "NotFound"),
    409: ("InvalidAction", "Conflict"),
    429: ("RequestBurstTooFast", "TooManyRequests"),
}


class ArkWire:
    """Errors as `{error: {code, message, param, type}}`."""

    name = "ark"
    honours_keys = False

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual, kind = CODES.get(status, ("InternalServiceError", "InternalServerError"))
        told = {"code": code or usual, "message": message, "param": "", "type": kind}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        if what == "minute":
            code = "RateLimitExceeded.EndpointRPMExceeded"
            return WireRefusal(429, "The Requests Per Minute (RPM) limit is exceeded.", code)
        return WireRefusal(429, "The number of queued tasks is exceeded.", "QuotaExceeded")


def submit(call: Call) -> Reply:
    """`POST /api/v3/contents/generations/tasks`."""
    body = call.body
    text_of(body, "model")
    content = contents_of(body)
    if not (has_text(content) or any(item.get("type") == "image_url" for item in content)):
        raise WireRefusal(400, "content: a text or an image is required", "MissingParameter")
    resolution = text_of(body, "resolution", "720p")
    if resolution not in RESOLUTIONS:
        raise Refusal(400, f"The parameter `resolution` {resolution!r} is not valid.")
    frames = number_of(body, "frames")
    seconds = number_of(body, "duration") or USUAL_SECONDS
    facts: Json = {
        "ratio": text_of(body, "ratio", "16:9"),
        "resolution": resolution,
        "frames": frames,
    }
    seconds = seconds if frames is None else frames / FRAMES_PER_SECOND
    task = call.begin("video", "cgt-", seconds, **facts)
    return json_reply({"id": task.id})


def poll(call: Call) -> Reply:
    """`GET /api/v3/contents/generations/tasks/{id}`."""
    task = call.task(call.path[0])
    state = task.state(call.now)
    shown: Json = {
        "id": task.id,
        "model": task.model,
        "status": state,
        "error": None,
        "created_at": int(task.created_at),
        "updated_at": int(task.updated_at(call.now)),
    }
    if state == SUCCEEDED:
        shown |= _made(task, call)
    elif task.is_over(call.now) and task.cancelled_at is None:
        shown["error"] = task.plan.error
    return json_reply(shown)


def cancel(call: Call) -> Reply:
    """`DELETE /api/v3/contents/generations/tasks/{id}`."""
    task = call.task(call.path[0])
    if task.cancelled_at is not None or not (
        task.is_over(call.now) or task.state(call.now) == QUEUED
    ):
        raise Refusal(409, "The task can not be cancelled in its current status.")
    if task.is_over(call.now):
        call.book.remove(task)
    else:
        task.cancel(call.now)
    return json_reply({})


def _made(task: Task, call: Call) -> Json:
    facts = task.facts
    made: Json = {"content": {}, "seed": task.seed, "framespersecond": FRAMES_PER_SECOND}
    made |= {"resolution": facts["resolution"], "ratio": facts["ratio"]}
    tokens = int(task.made_seconds * FRAMES_PER_SECOND * 900)
    made["usage"] = {"completion_tokens": tokens, "total_tokens": tokens}
    seconds = task.reported_seconds()
    if facts["frames"] is not None:
        made["frames"] = int(facts["frames"])
    elif seconds is not None:
        made["duration"] = seconds
    if task.plan.has_result:
        ratio = ratio_of(facts["ratio"])
        file = film_file(task.made_seconds, ratio, task.seed, task.plan.file_bytes)
        made["content"]["video_url"] = call.link(task, file, DAY)[0]
    return made
