"""The `suno` dialect, songs, and the `minimax` dialect, speech.

Of `suno`, as the proxies in front of that service speak it: an envelope `{code, message, data}`
whose code is `success` or a word for what is wrong, mostly with status 200; upper-case states;
songs that are listed, still without a link, before they are done.

Of `minimax`: every error is a 200 with a number in `base_resp`, sound comes as hexadecimal digits,
ids are whole numbers, a task that is done names a file whose link is asked for apart and lives nine
hours from then, and no more than ten queries a second are answered.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import encode
from loadtests.simulator.sound import FORMATS
from loadtests.simulator.tasks.call import (
    DAY,
    SUBMIT,
    Call,
    Json,
    Wire,
    WireRefusal,
    sound_file,
    text_of,
)
from loadtests.simulator.tasks.plain import LENGTHS, is_speed, songs_of, spoken_seconds
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

SUNO_WORDS: Final = {
    QUEUED: "SUBMITTED",
    RUNNING: "IN_PROGRESS",
    SUCCEEDED: "SUCCESS",
    FAILED: "FAILURE",
    CANCELLED: "FAILURE",
}
SUNO_GOOD: Final = "success"
SUNO_CODES: Final = {
    400: "invalid_request",
    404: "task_not_exist",
    405: "invalid_request",
    409: "invalid_request",
}
HTTP_ERRORS: Final = frozenset({401, 403, 429})


class SunoWire(Wire):
    """What is wrong with a request stands in the envelope of a 200; the rest has a status."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        if status in HTTP_ERRORS or status >= 500:
            told = {"message": message, "type": "new_api_error", "code": code or ""}
            return status, encode({"error": told})
        usual = SUNO_CODES.get(status, "invalid_request")
        sent = 400 if status == 404 else 200
        return sent, encode({"code": code or usual, "message": message, "data": None})

    def too_many(self, what: str) -> Refusal:
        return WireRefusal(429, "Too many requests, please retry later.", "rate_limit")


SUNO: Final = SunoWire("suno")


@SUNO.serves(SUBMIT, "POST /suno/submit/music")
def submit_suno(call: Call) -> Json:
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
    task = call.begin("music", "", sum(LENGTHS), tags=text_of(body, "tags", ""), **facts)
    task.model = text_of(body, "mv")
    return {"code": SUNO_GOOD, "message": "", "data": task.id}


@SUNO.serves("poll", "GET /suno/fetch/*")
def poll_suno(call: Call) -> Json:
    task = call.task(call.path[0])
    state = task.state(call.now)
    is_bad = task.is_over(call.now) and state != SUCCEEDED
    done = 100 if state == SUCCEEDED else task.progress(call.now) or 0
    data = {
        "task_id": task.id,
        "notify_hook": "",
        "action": "MUSIC",
        "status": SUNO_WORDS.get(state, state),
        "fail_reason": _reason(task) if is_bad else "",
        "submit_time": int(task.created_at),
        "start_time": 0 if state == QUEUED else int(task.created_at),
        "finish_time": int(task.updated_at(call.now)) if task.is_over(call.now) else 0,
        "progress": f"{done}%",
        "data": [] if is_bad or state == QUEUED else _songs(task, call, is_done=state == SUCCEEDED),
    }
    return {"code": SUNO_GOOD, "message": "", "data": data}


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
        for song in songs_of(task, call, DAY)
    ]


LINK_SECONDS: Final = 9 * 3600.0
QUERIES_PER_SECOND: Final = 10
CHARACTERS_MAX: Final = 10_000
ASYNC_CHARACTERS_MAX: Final = 50_000
GOOD: Final = {"status_code": 0, "status_msg": "success"}
BAD_PARAMETER: Final = 2013
RATE_LIMITED: Final = 1002
TOKENS_LIMITED: Final = 1039
MINIMAX_CODES: Final = {401: 1004, 429: RATE_LIMITED, 500: 1000, 504: 1001}
MINIMAX_WORDS: Final = {
    QUEUED: "Processing",
    RUNNING: "Processing",
    SUCCEEDED: "Success",
    FAILED: "Failed",
    CANCELLED: "Failed",
    "expired": "Expired",
}


class MiniMaxWire(Wire):
    """Errors as `{base_resp: {status_code, status_msg}}`, with status 200."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual = MINIMAX_CODES.get(status, BAD_PARAMETER if status < 500 else 1000)
        told = {"status_code": code or usual, "status_msg": message}
        return 200, encode({"base_resp": told})

    def too_many(self, what: str) -> Refusal:
        if what == "minute":
            return WireRefusal(429, "rate limit exceeded(RPM)", RATE_LIMITED)
        return WireRefusal(429, "rate limit exceeded(TPM)", TOKENS_LIMITED)


MINIMAX: Final = MiniMaxWire("minimax")


@MINIMAX.serves(SUBMIT, "POST /v1/t2a_v2")
def speak(call: Call) -> Json:
    body = call.body
    text, extension, seconds = _asked(body, CHARACTERS_MAX)
    if body.get("stream") is True or text_of(body, "output_format", "hex") != "hex":
        raise Refusal(400, "invalid params, only whole answers in hex are served here")
    sound = FORMATS[extension][1](seconds, len(text))
    told = {
        "audio_length": round(seconds * 1000),
        "audio_size": len(sound),
        "audio_format": extension,
        "audio_channel": 1,
        "word_count": len(text.split()),
        "usage_characters": len(text),
    }
    data = {"audio": sound.hex(), "status": 2}
    return {"data": data, "extra_info": told, "trace_id": call.book.new_id(), "base_resp": GOOD}


@MINIMAX.serves(SUBMIT, "POST /v1/t2a_async_v2")
def submit_minimax(call: Call) -> Json:
    text, extension, seconds = _asked(call.body, ASYNC_CHARACTERS_MAX)
    number = int(call.book.new_id()[:12], 16)  # its file has the next one
    call.begin("speech", "", seconds, task_id=str(number), format=extension)
    answer = {"task_id": number, "task_token": f"token{number}", "file_id": number + 1}
    return {**answer, "usage_characters": len(text), "base_resp": GOOD}


@MINIMAX.serves("poll", "GET /v1/query/t2a_async_query_v2", query="task_id")
def poll_minimax(call: Call) -> Json:
    limited = f"{call.api_key} queries"
    if not call.book.count(limited, call.now, QUERIES_PER_SECOND, seconds=1.0):
        raise call.wire.too_many("minute")
    task = _task(call, call.path[0])
    state = task.state(call.now)
    number = int(task.id)
    shown: Json = {"task_id": number, "status": MINIMAX_WORDS.get(state, state), "base_resp": GOOD}
    if state == SUCCEEDED and not task.plan.has_result:
        return shown
    if task.is_over(call.now) and state != SUCCEEDED:
        error = task.plan.error
        told = error.get("message") if isinstance(error, dict) else error
        return {**shown, "base_resp": {"status_code": 0, "status_msg": told}}
    return {**shown, "file_id": number + 1}


@MINIMAX.serves("file", "GET /v1/files/retrieve", query="file_id")
def retrieve_minimax(call: Call) -> Json:
    file_id = call.path[0]
    task = _task(call, str(int(file_id) - 1) if file_id.isdecimal() and len(file_id) < 19 else "")
    if task.state(call.now) != SUCCEEDED:
        raise Refusal(400, "invalid params, file not ready")
    file = sound_file(task.made_seconds, task.seed, task.facts["format"])
    life = LINK_SECONDS if task.plan.link_seconds is None else task.plan.link_seconds
    shown = {
        "file_id": int(file_id),
        "bytes": 0,
        "created_at": int(task.created_at),
        "filename": f"output.{task.facts['format']}",
        "purpose": "t2a_async",
        "download_url": call.files.link(call.base, file, task.id, call.now + life),
    }
    return {"file": shown, "base_resp": GOOD}


def _task(call: Call, task_id: str) -> Task:
    """As everywhere, but an unknown name is a bad parameter."""
    try:
        return call.task(task_id)
    except Refusal:
        raise Refusal(400, "invalid params, task_id not found") from None


def _asked(body: Json, characters_max: int) -> tuple[str, str, float]:
    """Text, format and the seconds of its speech; raises Refusal 400."""
    text_of(body, "model")
    text = text_of(body, "text")
    voice, sound = body.get("voice_setting"), body.get("audio_setting", {})
    if not isinstance(voice, dict) or not isinstance(sound, dict):
        raise Refusal(400, "invalid params, voice_setting is required")
    text_of(voice, "voice_id")
    speed = voice.get("speed", 1.0)
    extension = text_of(sound, "format", "mp3")
    if not is_speed(speed):
        raise Refusal(400, "invalid params, speed is out of range")
    if extension not in FORMATS or len(text) > characters_max:
        raise Refusal(400, "invalid params, format is not supported or text is too long")
    return text, extension, spoken_seconds(text, speed)
