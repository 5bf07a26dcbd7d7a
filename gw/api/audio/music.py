"""`/v1/music/generations`: songs are submitted, polled and listed (reference 7.6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.media.results import MusicResult, Track
from gw.api import task_shapes
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall
from gw.api.task_lists import error_of, listed, polled
from gw.media.music import read_music
from gw.media.task_list import MUSIC

# Until its end a task is `processing`, whatever its upstream reports.
SONG_STATES: Mapping[State, str] = MappingProxyType(
    {"queued": "processing", "running": "processing"}
)


class MusicTask(TypedDict):
    """Songs that are made, or were."""

    id: task_shapes.TaskId
    status: Annotated[
        str,
        Meta(
            description="`processing` until its end.",
            extra_json_schema={"enum": list(MUSIC.states)},
        ),
    ]
    model: task_shapes.TaskModel
    created_at: task_shapes.SubmittedAt
    tracks: NotRequired[Annotated[list[Track], Meta(description="The songs, on success.")]]
    error: NotRequired[task_shapes.TaskFailure]


class MusicTasks(TypedDict):
    """A list of tasks."""

    data: Annotated[list[MusicTask], Meta(description="The tasks, newest first.")]


class MusicHandler(KeyedHandler):
    """Submits songs for their price, and lists them for free."""

    async def on_get(self) -> None:
        self.write(await listed(self, "music", MUSIC, shown_song, word_of=SONG_STATES))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "music")
        request = await submit.read_submission(read_music, model=lambda read: read.model)
        price = submit.price()
        call = submit.job_call(
            request,
            job_id=new_job_id("music"),
            job=media.jobs.new_job("music", price=price, quantity=1),
            hold_nano_usd=price.cost_nano_usd(1),
            cheaper="or ask for less.",
            status="queued",
        )
        await submit.run_detached(call, media.video_submit)


class MusicTaskHandler(ApiHandler):
    """One task."""

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "music", task_id, shown_song))


def shown_song(job: Job) -> MusicTask:
    """Return a task as clients see it; missing members of a track are null."""
    members: MusicTask = {
        "id": job.id,
        "status": SONG_STATES.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if isinstance(job.result, MusicResult):
        members["tracks"] = msgspec.to_builtins(job.result.tracks)
    if (error := error_of(job)) is not None:
        members["error"] = error
    return members
