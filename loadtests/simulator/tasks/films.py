"""The `ark` and `openai` dialects: films.

Of Volcengine's and ModelArk's `ark`: ids that begin with `cgt-`, an `error` that is null where
there is none, lengths in frames where frames were asked for, links that live a day from the task's
last change, and a DELETE that cancels what is queued, forgets what is over and refuses what runs.

Of `openai`: bytes that are fetched with the key, not by a link, and are refused until the film is
there and after it has expired; lengths as texts and only some of them, sizes in pixels.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import encode, error_type
from loadtests.simulator.tasks.call import (
    DAY,
    SUBMIT,
    Call,
    Json,
    Reply,
    Wire,
    WireRefusal,
    contents_of,
    film_file,
    has_text,
    number_of,
    part_of,
    ratio_of,
    text_of,
)
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

FRAMES_PER_SECOND: Final = 24
USUAL_SECONDS: Final = 5.0
RESOLUTIONS: Final = ("480p", "720p", "1080p", "2k", "4k")
ARK_CODES: Final = {
    400: ("InvalidParameter", "BadRequest"),
    401: ("AuthenticationError", "Unauthorized"),
    403: ("AccessDenied", "Forbidden"),
    404: ("ResourceNotFound", "NotFound"),
    409: ("InvalidAction", "Conflict"),
    429: ("RequestBurstTooFast", "TooManyRequests"),
}


class ArkWire(Wire):
    """Errors as `{error: {code, message, param, type}}`."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual, kind = ARK_CODES.get(status, ("InternalServiceError", "InternalServerError"))
        told = {"code": code or usual, "message": message, "param": "", "type": kind}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        if what == "minute":
            code = "RateLimitExceeded.EndpointRPMExceeded"
            return WireRefusal(429, "The Requests Per Minute (RPM) limit is exceeded.", code)
        return WireRefusal(429, "The number of queued tasks is exceeded.", "QuotaExceeded")


ARK: Final = ArkWire("ark")


@ARK.serves(SUBMIT, "POST /api/v3/contents/generations/tasks")
def submit_ark(call: Call) -> Json:
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
    return {"id": task.id}


@ARK.serves("poll", "GET /api/v3/contents/generations/tasks/*")
def poll_ark(call: Call) -> Json:
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
    return shown


@ARK.serves("cancel", "DELETE /api/v3/contents/generations/tasks/*")
def cancel_ark(call: Call) -> Json:
    task = call.task(call.path[0])
    if task.cancelled_at is not None or not (
        task.is_over(call.now) or task.state(call.now) == QUEUED
    ):
        raise Refusal(409, "The task can not be cancelled in its current status.")
    if task.is_over(call.now):
        call.book.remove(task)
    else:
        task.cancel(call.now)
    return {}


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


LENGTHS: Final = ("4", "8", "12", "16", "20")
USUAL_LENGTH: Final = "4"
SIZES: Final = (
    "720x1280", "1280x720", "1024x1792", "1792x1024", "1080x1920", "1920x1080",
)  # fmt: skip
WORDS: Final = {QUEUED: "queued", RUNNING: "in_progress", SUCCEEDED: "completed"}


class OpenAIWire(Wire):
    """Errors as `{error: {message, type, param, code}}`."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        kind, usual = error_type(status)
        usual = "not_found" if status == 404 else usual
        told = {"message": message, "type": kind, "param": None, "code": code or usual}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        dimension = "requests per min (RPM)" if what == "minute" else "concurrent videos"
        message = f"Rate limit reached on {dimension}. Please try again later."
        return WireRefusal(429, message, "rate_limit_exceeded")


OPENAI: Final = OpenAIWire("openai")


@OPENAI.serves(SUBMIT, "POST /v1/videos")
def submit_openai(call: Call) -> Json:
    body = call.body
    text_of(body, "model")
    prompt = text_of(body, "prompt")
    seconds = text_of(body, "seconds", USUAL_LENGTH)
    size = text_of(body, "size", "720x1280")
    for name, value, allowed in (("seconds", seconds, LENGTHS), ("size", size, SIZES)):
        if value not in allowed:
            told = ", ".join(repr(one) for one in allowed)
            message = f"Invalid value: {value!r} for {name!r}. Supported values are: {told}."
            raise WireRefusal(400, message, "invalid_value")
    reference = body.get("input_reference")
    if reference is not None and not isinstance(reference, dict):
        raise WireRefusal(400, "Invalid type for 'input_reference'.", "invalid_type")
    task = call.begin("video", "video_", float(seconds), size=size, prompt=prompt, asked=seconds)
    return _shown(task, call)


@OPENAI.serves("poll", "GET /v1/videos/*")
def poll_openai(call: Call) -> Json:
    return _shown(call.task(call.path[0]), call)


@OPENAI.serves("file", "GET /v1/videos/*/content")
def content_openai(call: Call) -> Reply:
    task = call.task(call.path[0])
    if task.state(call.now) != SUCCEEDED or not task.plan.has_result:
        raise Refusal(404, "Video is not ready yet, use GET /v1/videos/{video_id} to check status.")
    if call.now >= _expires(task, call):
        raise Refusal(404, "Video assets have expired.")
    ratio = ratio_of(task.facts["size"])
    file = film_file(task.made_seconds, ratio, task.seed, task.plan.file_bytes)
    part = part_of(file, call.exchange)
    return Reply(b"", part.status, part.content_type, part.lines, part.pieces)


@OPENAI.serves("cancel", "DELETE /v1/videos/*")
def delete_openai(call: Call) -> Json:
    task = call.task(call.path[0])
    task.cancel(call.now)
    call.book.remove(task)
    return {"id": task.id, "object": "video.deleted", "deleted": True}


def _expires(task: Task, call: Call) -> int:
    life = DAY if task.plan.link_seconds is None else task.plan.link_seconds
    return int(task.updated_at(call.now) + life)


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    is_done = state == SUCCEEDED
    is_bad = task.is_over(call.now) and not is_done
    seconds = task.plan.real_seconds if is_done else None
    return {
        "id": task.id,
        "object": "video",
        "model": task.model,
        "status": FAILED if state == CANCELLED else WORDS.get(state, state),
        "progress": 100 if is_done else task.progress(call.now) or 0,
        "created_at": int(task.created_at),
        "completed_at": int(task.updated_at(call.now)) if is_done else None,
        "expires_at": _expires(task, call) if is_done else None,
        "prompt": task.facts["prompt"],
        "size": task.facts["size"],
        "seconds": task.facts["asked"] if seconds is None else str(seconds),
        "remixed_from_video_id": None,
        "error": task.plan.error if is_bad else None,
    }
