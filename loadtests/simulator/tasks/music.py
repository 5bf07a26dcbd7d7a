"""The plain wire's songs: each task makes two."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import Call, Json, Reply, json_reply, text_of
from loadtests.simulator.tasks.files import picture_file, sound_file
from loadtests.simulator.tasks.plain import LINK_SECONDS, cancelled, ending_of
from loadtests.simulator.tasks.task import QUEUED, RUNNING, SUCCEEDED, Task

LENGTHS: Final = (24.0, 30.5)  # of the two songs, in seconds
WORDS: Final = {QUEUED: "processing", RUNNING: "processing"}


def submit(call: Call) -> Reply:
    """`POST /v1/music/generations`."""
    body = call.body
    text_of(body, "model")
    if not (body.get("prompt") or body.get("lyrics") or body.get("instrumental") is True):
        raise Refusal(400, "One of 'prompt' and 'lyrics' is required.")
    lyrics = "" if body.get("instrumental") else text_of(body, "lyrics", "")
    title = text_of(body, "title", "") or text_of(body, "prompt", "")[:40] or "Untitled"
    task = call.begin("music", "mus_", sum(LENGTHS), title=title, lyrics=lyrics)
    return json_reply({**_shown(task, call), "status": QUEUED})


def poll(call: Call) -> Reply:
    """`GET /v1/music/generations/{id}`."""
    return json_reply(_shown(call.task(call.path[0], "music"), call))


def cancel(call: Call) -> Reply:
    """`DELETE /v1/music/generations/{id}`."""
    return json_reply(_shown(cancelled(call, "music"), call))


def tracks(task: Task, call: Call, life: float) -> list[Json]:
    """The songs of a task that is over."""
    found = []
    for number, seconds in enumerate(LENGTHS):
        audio, expires = call.link(task, sound_file(seconds, task.seed + number), life)
        image, _ = call.link(task, picture_file((task.seed + number) % 10_000), life)
        found.append(
            {
                "clip_id": f"{task.id}-{number + 1}",
                "title": task.facts["title"],
                "duration_sec": seconds,
                "audio_url": audio,
                "image_url": image,
                "lyrics": task.facts["lyrics"],
                "expires_at": expires,
            }
        )
    return found


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    shown: Json = {
        "id": task.id,
        "status": WORDS.get(state, state),
        "model": task.model,
        "created_at": int(task.created_at),
    }
    if state == SUCCEEDED:
        songs = tracks(task, call, LINK_SECONDS) if task.plan.has_result else []
        for song in songs:
            del song["expires_at"]
        shown["tracks"] = songs
    return shown | ending_of(task, call)
