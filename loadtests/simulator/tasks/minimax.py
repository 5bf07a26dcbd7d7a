"""The `minimax` dialect: speech.

Of its own: every error is a 200 with a number in `base_resp`, sound comes as hexadecimal digits,
ids are whole numbers, a task that is done names a file whose link is asked for apart and lives nine
hours from then, and no more than ten queries a second are answered.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import bearer, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.media.audio import FORMATS
from loadtests.simulator.tasks.call import Call, Json, Reply, WireRefusal, json_reply, text_of
from loadtests.simulator.tasks.files import sound_file
from loadtests.simulator.tasks.speech import spoken_seconds
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

LINK_SECONDS: Final = 9 * 3600.0
QUERIES_PER_SECOND: Final = 10
CHARACTERS_MAX: Final = 10_000
ASYNC_CHARACTERS_MAX: Final = 50_000
GOOD: Final = {"status_code": 0, "status_msg": "success"}
BAD_PARAMETER: Final = 2013
RATE_LIMITED: Final = 1002
TOKENS_LIMITED: Final = 1039
CODES: Final = {401: 1004, 429: RATE_LIMITED, 500: 1000, 504: 1001}
WORDS: Final = {
    QUEUED: "Processing",
    RUNNING: "Processing",
    SUCCEEDED: "Success",
    FAILED: "Failed",
    CANCELLED: "Failed",
    "expired": "Expired",
}


class MiniMaxWire:
    """Errors as `{base_resp: {status_code, status_msg}}`, with status 200."""

    name = "minimax"
    honours_keys = False

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual = CODES.get(status, BAD_PARAMETER if status < 500 else 1000)
        told = {"status_code": code or usual, "status_msg": message}
        return 200, encode({"base_resp": told})

    def too_many(self, what: str) -> Refusal:
        if what == "minute":
            return WireRefusal(429, "rate limit exceeded(RPM)", RATE_LIMITED)
        return WireRefusal(429, "rate limit exceeded(TPM)", TOKENS_LIMITED)


def speak(call: Call) -> Reply:
    """`POST /v1/t2a_v2`."""
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
    answer = {"data": data, "extra_info": told, "trace_id": call.book.new_id(), "base_resp": GOOD}
    return json_reply(answer)


def submit(call: Call) -> Reply:
    """`POST /v1/t2a_async_v2`."""
    text, extension, seconds = _asked(call.body, ASYNC_CHARACTERS_MAX)
    number = int(call.book.new_id()[:12], 16)  # its file has the next one
    call.begin("speech", "", seconds, task_id=str(number), format=extension)
    answer = {"task_id": number, "task_token": f"token{number}", "file_id": number + 1}
    return json_reply({**answer, "usage_characters": len(text), "base_resp": GOOD})


def poll(call: Call) -> Reply:
    """`GET /v1/query/t2a_async_query_v2?task_id=`."""
    limited = f"{call.api_key} queries"
    if not call.book.count(limited, call.now, QUERIES_PER_SECOND, seconds=1.0):
        raise call.wire.too_many("minute")
    task = _task(call, call.path[0])
    state = task.state(call.now)
    number = int(task.id)
    shown: Json = {"task_id": number, "status": WORDS.get(state, state), "base_resp": GOOD}
    if state == SUCCEEDED and not task.plan.has_result:
        return json_reply(shown)
    if task.is_over(call.now) and state != SUCCEEDED:
        error = task.plan.error
        told = error.get("message") if isinstance(error, dict) else error
        return json_reply({**shown, "base_resp": {"status_code": 0, "status_msg": told}})
    return json_reply({**shown, "file_id": number + 1})


def retrieve(call: Call) -> Reply:
    """`GET /v1/files/retrieve?file_id=`: the link is new each time."""
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
    return json_reply({"file": shown, "base_resp": GOOD})


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
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 4:
        raise Refusal(400, "invalid params, speed is out of range")
    if extension not in FORMATS or len(text) > characters_max:
        raise Refusal(400, "invalid params, format is not supported or text is too long")
    return text, extension, spoken_seconds(text, speed)
