"""Speech: the sound at once, or as a task."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import shape
from loadtests.simulator.files import Reply, file_of, made
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Speed, Text
from loadtests.simulator.tasks.plain.wire import LINK_SECONDS, Sound, begun, plain_wire, serve_tasks
from loadtests.simulator.tasks.task import SUCCEEDED, Task

SPEECH = plain_wire("speech")

SPOKEN_PER_SECOND: Final = 15  # characters
SPOKEN_SECONDS_MAX: Final = 60.0
_SPEECH = shape(model=Text, voice=Text, input=Text, response_format=Sound | None, speed=Speed)


@SPEECH.serves(SUBMIT, "POST /v1/audio/speech", _SPEECH)
def submit_speech(call: Call) -> Json | Reply:
    body = call.body
    text, extension = body["input"], body.get("response_format") or "mp3"
    seconds = spoken_seconds(text, body.get("speed") or 1.0)
    if body.get("async") is not True:
        file = file_of(extension, seconds)
        return Reply(made(file)[0], content_type=file.content_type)
    task = call.begin("speech", "tts_", seconds, characters=len(text), format=extension)
    return _speech(task, call)


def spoken_seconds(text: str, speed: float) -> float:
    """The length of this text as speech."""
    return min(SPOKEN_SECONDS_MAX, max(0.5, len(text) / SPOKEN_PER_SECOND / speed))


def _speech(task: Task, call: Call) -> Json:
    shown = begun(task, call, waiting="pending") | {"characters": task.facts["characters"]}
    if task.state(call.now) == SUCCEEDED:
        file = file_of(task.facts["format"], task.made_seconds)
        link, ends_at = call.link(task, file, LINK_SECONDS, is_renewed=True)
        shown |= {"audio_url": link, "expires_at": ends_at}
    return shown


serve_tasks(SPEECH, "/v1/audio/speech", "speech", _speech)
