"""The plain wire's speech: the sound at once, or as a task."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.media.audio import FORMATS
from loadtests.simulator.tasks.call import Call, Json, Reply, json_reply, text_of
from loadtests.simulator.tasks.files import sound_file
from loadtests.simulator.tasks.plain import LINK_SECONDS, cancelled, ending_of
from loadtests.simulator.tasks.task import QUEUED, RUNNING, SUCCEEDED, Task

CHARACTERS_PER_SECOND: Final = 15
SECONDS_MAX: Final = 60.0
WORDS: Final = {QUEUED: "pending", RUNNING: "pending"}


def submit(call: Call) -> Reply:
    """`POST /v1/audio/speech`."""
    body = call.body
    text_of(body, "model")
    text_of(body, "voice")
    text = text_of(body, "input")
    extension = text_of(body, "response_format", "mp3")
    speed = body.get("speed", 1.0)
    if extension not in FORMATS:
        raise Refusal(400, f"Invalid 'response_format': expected one of {', '.join(FORMATS)}.")
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 4:
        raise Refusal(400, "Invalid 'speed': expected 0.25 to 4.")
    seconds = spoken_seconds(text, speed)
    if body.get("async") is not True:
        content_type, make = FORMATS[extension]
        return Reply(make(seconds, len(text)), content_type=content_type.encode())
    task = call.begin("speech", "tts_", seconds, characters=len(text), format=extension)
    return json_reply(_shown(task, call))


def poll(call: Call) -> Reply:
    """`GET /v1/audio/speech/{id}`."""
    return json_reply(_shown(call.task(call.path[0], "speech"), call))


def cancel(call: Call) -> Reply:
    """`DELETE /v1/audio/speech/{id}`."""
    return json_reply(_shown(cancelled(call, "speech"), call))


def spoken_seconds(text: str, speed: float) -> float:
    """The length of this text as speech."""
    return min(SECONDS_MAX, max(0.5, len(text) / CHARACTERS_PER_SECOND / speed))


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    shown: Json = {
        "id": task.id,
        "status": WORDS.get(state, state),
        "model": task.model,
        "created_at": int(task.created_at),
        "characters": task.facts["characters"],
    }
    if state == SUCCEEDED and task.plan.has_result:
        file = sound_file(task.made_seconds, task.seed, task.facts["format"])
        link, ends_at = call.link(task, file, LINK_SECONDS, is_renewed=True)
        shown["audio_url"], shown["expires_at"] = link, ends_at
    return shown | ending_of(task, call)
