"""The `suno` dialect: songs, as the proxies in front of that service speak.

Of its own: an envelope `{code, message, data}` whose code is `success` or a word for what is wrong,
mostly with status 200; upper-case states; songs that are listed, still without a link, before they
are done.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import bearer, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.tasks import music
from loadtests.simulator.tasks.call import DAY, Call, Json, Reply, WireRefusal, json_reply, text_of
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

WORDS: Final = {
    QUEUED: "SUBMITTED",
    RUNNING: "IN_PROGRESS",
    SUCCEEDED: "SUCCESS",
    FAILED: "FAILURE",
    CANCELLED: "FAILURE",
}
GOOD: Final = "success"
CODES: Final = {
    400: "invalid_request",
    404: "task_not_exist",
    405: "invalid_request",
    409: "invalid_request",
}
HTTP_ERRORS: Final = frozenset({401, 403, 429})


class SunoWire:
    """What is wrong with a request stands in the envelope of a 200; the rest has a status."""

    name = "suno"
    honours_keys = False

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        if status in HTTP_ERRORS or status >= 500:
            told = {"message": message, "type": "new_api_error", "code": code or ""}
            return status, encode({"error": told})
        usual = CODES.get(status, "invalid_request")
        sent = 400 if status == 404 else 200
        return sent, encode({"code": code or usual, "message": message, "data": None})

    def too_many(self, what: str) -> Refusal:
        return WireRefusal(429, "Too many requests, please retry later.", "rate_limit")


def submit(call: Call) -> Reply:
    """`POST /suno/submit/music`."""
    body = call.body
    text_of(body, "mv")
    for name in ("gpt_description_prompt", "prompt", "title", "tags", "negative_tags"):
        text_of(body, name, "")
    lyrics = text_of(body, "prompt", "")
    idea = text_of(body, "gpt_description_prompt", "")
    is_instrumental = body.get("make_instrumental", False)
    if not isinstance(is_instrumental, bool):
        raise Refusal(400, "make_instrumental must be a boolean")
    if not (lyrics or idea or is_instrumental):
        raise Refusal(400, "prompt is required")
    facts = {"title": text_of(body, "title", "") or idea[:40] or "Untitled", "lyrics": lyrics}
    task = call.begin("music", "", sum(music.LENGTHS), tags=text_of(body, "tags", ""), **facts)
    task.model = text_of(body, "mv")
    return json_reply({"code": GOOD, "message": "", "data": task.id})


def poll(call: Call) -> Reply:
    """`GET /suno/fetch/{id}`."""
    task = call.task(call.path[0])
    state = task.state(call.now)
    is_bad = task.is_over(call.now) and state != SUCCEEDED
    done = 100 if state == SUCCEEDED else task.progress(call.now) or 0
    data = {
        "task_id": task.id,
        "notify_hook": "",
        "action": "MUSIC",
        "status": WORDS.get(state, state),
        "fail_reason": _reason(task) if is_bad else "",
        "submit_time": int(task.created_at),
        "start_time": 0 if state == QUEUED else int(task.created_at),
        "finish_time": int(task.updated_at(call.now)) if task.is_over(call.now) else 0,
        "progress": f"{done}%",
        "data": [] if is_bad or state == QUEUED else _songs(task, call, is_done=state == SUCCEEDED),
    }
    return json_reply({"code": GOOD, "message": "", "data": data})


def _reason(task: Task) -> str:
    error = task.plan.error
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)


def _songs(task: Task, call: Call, *, is_done: bool) -> list[Json]:
    has_links = is_done and task.plan.has_result
    return [
        {
            "id": song["clip_id"],
            "title": song["title"],
            "status": "complete" if is_done else "queued",
            "model_name": task.model,
            "audio_url": song["audio_url"] if has_links else "",
            "image_url": song["image_url"] if has_links else "",
            "video_url": "",
            "metadata": {
                "tags": task.facts["tags"],
                "prompt": song["lyrics"],
                "duration": song["duration_sec"] if is_done else None,
            },
        }
        for song in music.tracks(task, call, DAY)
    ]
