"""Songs: each task makes two."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.files import File, file_of
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Text
from loadtests.simulator.tasks.plain.wire import LINK_SECONDS, begun, plain_wire, serve_tasks
from loadtests.simulator.tasks.task import QUEUED, SUCCEEDED, Task

MUSIC = plain_wire("music")

LENGTHS: Final = (24.0, 30.5)  # of the two songs, in seconds
_SONG = shape(
    model=Text, prompt=str | None, lyrics=str | None, title=str | None, instrumental=bool | None
)


@MUSIC.serves(SUBMIT, "POST /v1/music/generations", _SONG)
def submit_songs(call: Call) -> Json:
    body = call.body
    is_instrumental = body.get("instrumental")
    if not (body.get("prompt") or body.get("lyrics") or is_instrumental):
        raise Refusal(400, "One of 'prompt' and 'lyrics' is required.")
    lyrics = "" if is_instrumental else body.get("lyrics", "")
    title = body.get("title") or body.get("prompt", "")[:40] or "Untitled"
    task = call.begin("music", "mus_", sum(LENGTHS), title=title, lyrics=lyrics)
    return {**_songs(task, call), "status": QUEUED}


def songs_of(task: Task, call: Call, life: float) -> list[Json]:
    """The songs of a task that is over."""
    return [
        {
            "clip_id": f"{task.id}-{number}",
            "title": task.facts["title"],
            "duration_sec": seconds,
            "audio_url": call.link(task, file_of("mp3", seconds), life)[0],
            "image_url": call.link(task, File("png"), life)[0],
            "lyrics": task.facts["lyrics"],
        }
        for number, seconds in enumerate(LENGTHS, 1)
    ]


def _songs(task: Task, call: Call) -> Json:
    shown = begun(task, call, waiting="processing")
    if task.state(call.now) == SUCCEEDED:
        shown["tracks"] = songs_of(task, call, LINK_SECONDS)
    return shown


serve_tasks(MUSIC, "/v1/music/generations", "music", _songs)
