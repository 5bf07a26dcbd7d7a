"""`GET /v1/audio/speech`: tasks of speech, one and all (contract §6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from actors.jobs.job import Job, State
from channels.media.replies import SpeechResult
from gw.api.task_lists import error_of

SHOWN: Mapping[State, str] = MappingProxyType({"queued": "pending", "running": "pending"})


def shown(job: Job) -> dict[str, Any]:
    """A task as clients see it."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": SHOWN.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
        "characters": job.quantity,
    }
    result = job.result
    if isinstance(result, SpeechResult):
        members["audio_url"] = result.url
        if result.expires_at is not None:
            members["expires_at"] = int(result.expires_at)
    return members | error_of(job)
