"""The `openai` dialect: films whose bytes are fetched with the key, not by a link.

Of its own: lengths as texts and only some of them, sizes in pixels, `in_progress` and `completed`,
a download that is refused until the film is there and after it has expired.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import bearer, encode, error_type
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.tasks.call import (
    DAY,
    Call,
    Json,
    Reply,
    WireRefusal,
    json_reply,
    ratio_of,
    text_of,
)
from loadtests.simulator.tasks.files import film_file, part_of
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

LENGTHS: Final = ("4", "8", "12", "16", "20")
USUAL_LENGTH: Final = "4"
SIZES: Final = (
    "720x1280", "1280x720", "1024x1792", "1792x1024", "1080x1920", "1920x1080",
)  # fmt: skip
WORDS: Final = {QUEUED: "queued", RUNNING: "in_progress", SUCCEEDED: "completed"}


class OpenAIWire:
    """Errors as `{error: {message, type, param, code}}`."""

    name = "openai"
    honours_keys = False

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        kind, usual = error_type(status)
        usual = "not_found" if status == 404 else usual
        told = {"message": message, "type": kind, "param": None, "code": code or usual}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        dimension = "requests per min (RPM)" if what == "minute" else "concurrent videos"
        message = f"Rate limit reached on {dimension}. Please try again later."
        return WireRefusal(429, message, "rate_limit_exceeded")


def submit(call: Call) -> Reply:
    """`POST /v1/videos`."""
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
    return json_reply(_shown(task, call))


def poll(call: Call) -> Reply:
    """`GET /v1/videos/{id}`."""
    return json_reply(_shown(call.task(call.path[0]), call))


def content(call: Call) -> Reply:
    """`GET /v1/videos/{id}/content`."""
    task = call.task(call.path[0])
    if task.state(call.now) != SUCCEEDED or not task.plan.has_result:
        raise Refusal(404, "Video is not ready yet, use GET /v1/videos/{video_id} to check status.")
    if call.now >= _expires(task, call):
        raise Refusal(404, "Video assets have expired.")
    ratio = ratio_of(task.facts["size"])
    file = film_file(task.made_seconds, ratio, task.seed, task.plan.file_bytes)
    part = part_of(file, call.exchange)
    return Reply(b"", part.status, part.content_type, part.lines, part.pieces)


def delete(call: Call) -> Reply:
    """`DELETE /v1/videos/{id}`."""
    task = call.task(call.path[0])
    task.cancel(call.now)
    call.book.remove(task)
    return json_reply({"id": task.id, "object": "video.deleted", "deleted": True})


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
