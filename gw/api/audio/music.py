"""`/v1/music/generations`: songs are submitted, polled and listed (spec: Music)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.media.results import MusicResult
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


def shown_song(job: Job) -> dict[str, Any]:
    """Return a task as clients see it; missing members of a track are null."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": SONG_STATES.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if isinstance(job.result, MusicResult):
        members["tracks"] = msgspec.to_builtins(job.result.tracks)
    return members | error_of(job)
