"""What the media endpoints may use beside `Services`: their use-cases and their jobs.

Made by `gw/media_services.py`; an endpoint finds it in the application's settings under `media`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from gw.voices.store import Voices

# Films that are read through a process at once: each holds two connections and a read's worth.
FILMS_MAX = 200


class FilmCount:
    """How many films are read through this process at the moment."""

    def __init__(self) -> None:
        self._open = 0

    def __repr__(self) -> str:
        return f"<FilmCount {self._open}>"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One more is read within this. Raises GatewayError where there are too many."""
        if self._open >= FILMS_MAX:
            raise GatewayError(NO_CHANNEL_AVAILABLE, "Too many films are read at once. Try again.")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


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
