"""What the media endpoints may use beside `Services`: their use-cases and their jobs.

Made by `gw/media_services.py`; an endpoint finds it in the application's settings under `media`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.catalogs.catalogs import Catalogs
from actors.jobs.content import JobContent
from actors.jobs.exchange import JobUpstreams
from actors.jobs.jobs import Jobs
from actors.jobs.renewal import LinkRenewal
from channels.redact import Redactor
from gw.calls.job_submit import JobSubmit
from gw.calls.sync_media import SyncMedia
from gw.calls.unattended import Unattended
from gw.calls.whole_submit import WholeSubmit
from gw.content_links import ContentLinks
from gw.voices.store import Voices


@dataclass(slots=True)
class FilmCount:
    """How many films are read through this process at the moment."""

    open: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaServices:
    """Everything of media calls that their endpoints need.

    What is made while the client waits: `speech`, `voice`, `transcript`.
    """

    images: SyncMedia
    jobs: Jobs
    video_submit: JobSubmit
    speech_submit: JobSubmit
    upstreams: JobUpstreams  # where what was made is deleted
    renewal: LinkRenewal
    content: JobContent
    content_links: ContentLinks
    films: FilmCount
    speech: WholeSubmit
    voice: WholeSubmit
    transcript: WholeSubmit
    unattended: Unattended
    voices: Voices
    catalogs: Catalogs
    redactor: Callable[[], Redactor]
