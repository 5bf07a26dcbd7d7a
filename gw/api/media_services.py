"""What the media endpoints may use beside `Services`: their use-cases and their jobs.

Made by `gw/media_services.py`; an endpoint finds it in the application's settings under `media`.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.jobs.jobs import Jobs
from gw.calls.job_submit import JobSubmit
from gw.calls.sync_media import SyncMedia


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaServices:
    """Everything of media calls that their endpoints need."""

    images: SyncMedia
    jobs: Jobs
    video_submit: JobSubmit
