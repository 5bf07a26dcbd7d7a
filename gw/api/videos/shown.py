"""A video task as clients see it (spec: Video task)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.jobs.job import Job
from channels.media.replies import VideoResult
from gw.api.task_lists import error_of

# The link to a job's film that the gateway serves itself, good until that instant (Unix seconds).
ContentLink = Callable[[Job, float], str]


def shown(job: Job, content_link: ContentLink) -> dict[str, Any]:
    """The members of a task; `content_link` links to films that have no link of their own."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": job.state,
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if job.progress is not None and not job.has_ended:
        members["progress"] = job.progress
    result = job.result
    if isinstance(result, VideoResult):
        assert result.expires_at is not None
        members["video_url"] = result.url or content_link(job, result.expires_at)
        members["expires_at"] = int(result.expires_at)
        if result.milliseconds is not None:
            members["duration"] = _seconds(result.milliseconds)
        if result.output_files:
            members["output_files"] = result.output_files
    return members | error_of(job)


def _seconds(milliseconds: int) -> int | float:
    whole, rest = divmod(milliseconds, 1000)
    return milliseconds / 1000 if rest else whole
