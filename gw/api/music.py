"""`/v1/music/generations`: songs are submitted, polled and listed (spec: Music)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from actors.jobs.job import Job, State
from actors.jobs.store import new_job_id
from channels.families import MUSIC_GENERATIONS
from channels.media.canonical import MusicResult
from gw.api.base import ApiHandler
from gw.api.submit import MediaSubmit, media_of
from gw.api.task_lists import error_of, listed, polled
from gw.media.lists import MUSIC
from gw.media.sounds import read_music

# Until it ends a task is `processing`, whatever its upstream reports.
SHOWN: Mapping[State, str] = MappingProxyType({"queued": "processing", "running": "processing"})


class MusicHandler(ApiHandler):
    """Songs: a task is begun for its price, the list is free."""

    route = "music"
    protocol = MUSIC_GENERATIONS.protocol
    limited = billed = idempotent = True

    async def on_get(self) -> None:
        self.write(await listed(self, "music", MUSIC, shown, word_of=SHOWN))

    async def on_post(self) -> None:
        media, submit = media_of(self), await MediaSubmit.begin(self, "music")
        request = await submit.read(read_music, model=lambda read: read.model)
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

    route = "music_task"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "music", task_id, shown))


def shown(job: Job) -> dict[str, Any]:
    """A task as clients see it; what a track lacks is null."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": SHOWN.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if isinstance(job.result, MusicResult):
        members["tracks"] = msgspec.to_builtins(job.result.tracks)
    return members | error_of(job)
