"""The `suno` dialect, songs, and the `minimax` dialect, speech.

Of `suno`, as the proxies in front of that service speak it: an envelope `{code, message, data}`
whose code is `success` or a word for what is wrong, mostly with status 200; upper-case states;
songs that are listed, still without a link, before they are done.

Of `minimax`: every error is a 200 with a number in `base_resp`, sound comes as hexadecimal digits,
ids are whole numbers, a task that is done names a file whose link is asked for apart and lives nine
hours from then.
"""

from __future__ import annotations

from typing import Final, Literal

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.files import file_of, made
from loadtests.simulator.tasks.call import DAY, SUBMIT, Call, Json, Speed, Text, Wire
from loadtests.simulator.tasks.plain.songs import LENGTHS, songs_of
from loadtests.simulator.tasks.plain.speech import spoken_seconds
from loadtests.simulator.tasks.plain.wire import Sound
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED

SUNO_WORDS: Final = {
    QUEUED: "SUBMITTED",
    RUNNING: "IN_PROGRESS",
    SUCCEEDED: "SUCCESS",
    FAILED: "FAILURE",
    CANCELLED: "FAILURE",
}


def _suno_error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    """What is wrong with a request stands in the envelope of a 200; the rest has a status."""
    if status in (401, 403, 429) or status >= 500:
        return status, {"error": {"message": message, "type": "new_api_error", "code": code or ""}}
    usual = "task_not_exist" if status == 404 else "invalid_request"
    sent = 400 if status == 404 else 200
    return sent, {"code": code or usual, "message": message, "data": None}


SUNO: Final = Wire("suno", _suno_error)
_SUNO_SONG = shape(
    mv=Text,
    gpt_description_prompt=str | None,
    prompt=str | None,
    title=str | None,
    tags=str | None,
    negative_tags=str | None,
    make_instrumental=bool | None,
)


@SUNO.serves(SUBMIT, "POST /suno/submit/music", _SUNO_SONG)
def submit_suno(call: Call) -> Json:
    body = call.body
    lyrics, idea = body.get("prompt", ""), body.get("gpt_description_prompt", "")
    if not (lyrics or idea or body.get("make_instrumental")):
        raise Refusal(400, "prompt is required")
    facts = {"title": body.get("title") or idea[:40] or "Untitled", "lyrics": lyrics}
    task = call.begin("music", "", sum(LENGTHS), tags=body.get("tags", ""), **facts)
    task.model = body["mv"]
    return {"code": "success", "message": "", "data": task.id}


@SUNO.serves("poll", "GET /suno/fetch/*")
def poll_suno(call: Call) -> Json:
    task, now = call.task(), call.now
    state, has_failed = task.state(now), task.has_failed(now)
    is_done = state == SUCCEEDED
    songs = [
        {
            "id": song["clip_id"],
            "title": song["title"],
            "status": "complete" if is_done else "queued",
            "model_name": task.model,
            "audio_url": song["audio_url"] if is_done else "",
            "image_url": song["image_url"] if is_done else "",
            "video_url": "",
            "metadata": {
                "tags": task.facts["tags"],
                "prompt": song["lyrics"],
                "duration": song["duration_sec"] if is_done else None,
            },
        }
        for song in songs_of(task, call, DAY)
    ]
    data = {
        "task_id": task.id,
        "notify_hook": "",
        "action": "MUSIC",
        "status": SUNO_WORDS.get(state, state),
        "fail_reason": task.reason[1] if has_failed else "",
        "submit_time": int(task.created_at),
        "start_time": 0 if state == QUEUED else int(task.created_at),
        "finish_time": int(task.updated_at(now)) if task.is_over(now) else 0,
        "progress": f"{100 if is_done else task.progress(now) or 0}%",
        "data": [] if has_failed or state == QUEUED else songs,
    }
    return {"code": "success", "message": "", "data": data}


LINK_SECONDS: Final = 9 * 3600.0
GOOD: Final = {"status_code": 0, "status_msg": "success"}
MINIMAX_CODES: Final = {401: 1004, 429: 1002, 504: 1001}
MINIMAX_WORDS: Final = {
    QUEUED: "Processing",
    RUNNING: "Processing",
    SUCCEEDED: "Success",
    FAILED: "Failed",
    CANCELLED: "Failed",
}


def _minimax_error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    usual = MINIMAX_CODES.get(status, 2013 if status < 500 else 1000)
    return 200, {"base_resp": {"status_code": code or usual, "status_msg": message}}


MINIMAX: Final = Wire("minimax", _minimax_error)
_MINIMAX_SPEECH = shape(
    model=Text,
    text=Text,
    voice_setting=shape(voice_id=Text, speed=Speed),
    audio_setting=shape(format=Sound | None) | None,
    stream=Literal[False] | None,
    output_format=Literal["hex"] | None,
)


def _requested(call: Call) -> tuple[str, str, float]:
    """Text, format and the seconds of its speech."""
    text, extension = call.body["text"], call.body.get("audio_setting", {}).get("format", "mp3")
    return text, extension, spoken_seconds(text, call.body["voice_setting"].get("speed", 1.0))


@MINIMAX.serves(SUBMIT, "POST /v1/t2a_v2", _MINIMAX_SPEECH)
def speak(call: Call) -> Json:
    text, extension, seconds = _requested(call)
    sound = made(file_of(extension, seconds))[0]
    result = {
        "audio_length": round(seconds * 1000),
        "audio_size": len(sound),
        "audio_format": extension,
        "audio_channel": 1,
        "word_count": len(text.split()),
        "usage_characters": len(text),
    }
    data = {"audio": sound.hex(), "status": 2}
    return {"data": data, "extra_info": result, "trace_id": call.book.new_id(), "base_resp": GOOD}


@MINIMAX.serves(SUBMIT, "POST /v1/t2a_async_v2", _MINIMAX_SPEECH)
def submit_minimax(call: Call) -> Json:
    text, extension, seconds = _requested(call)
    number = int(call.book.new_id()[:12], 16)  # its file has the next one
    call.begin("speech", "", seconds, task_id=str(number), format=extension)
    response = {"task_id": number, "task_token": f"token{number}", "file_id": number + 1}
    return {**response, "usage_characters": len(text), "base_resp": GOOD}


@MINIMAX.serves("poll", "GET /v1/query/t2a_async_query_v2", query="task_id")
def poll_minimax(call: Call) -> Json:
    task = call.task()
    state, number = task.state(call.now), int(task.id)
    shown: Json = {"task_id": number, "status": MINIMAX_WORDS.get(state, state), "base_resp": GOOD}
    if task.has_failed(call.now):
        return {**shown, "base_resp": {"status_code": 0, "status_msg": task.reason[1]}}
    return {**shown, "file_id": number + 1}


@MINIMAX.serves("file", "GET /v1/files/retrieve", query="file_id")
def retrieve_minimax(call: Call) -> Json:
    file_id = int(call.path[0])
    task = call.task(task_id=str(file_id - 1))
    if task.state(call.now) != SUCCEEDED:
        raise Refusal(400, "invalid params, file not ready")
    file = file_of(task.facts["format"], task.made_seconds)
    expires = call.now + task.life(LINK_SECONDS)
    shown = {
        "file_id": file_id,
        "bytes": 0,
        "created_at": int(task.created_at),
        "filename": f"output.{file.extension}",
        "purpose": "t2a_async",
        "download_url": call.files.link(call.base, file, task.id, expires),
    }
    return {"file": shown, "base_resp": GOOD}
