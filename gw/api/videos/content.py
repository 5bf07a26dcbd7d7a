"""`GET /v1/videos/generations/{id}/content`: a film whose upstream requires our key.

It needs no key: the signature proves that the gateway made the link. The film is passed through
in pieces; a slow client slows the upstream down, and nothing is stored.
"""

from __future__ import annotations

import asyncio
import re

from actors.jobs.content import ContentUnavailable
from actors.jobs.job import Job
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamResponse
from channels.shares import OWNER
from gw import errors
from gw.api.handler import ApiHandler
from gw.api.media_submit import media_of
from gw.calls.endings import sendable
from gw.upstream_errors import from_upstream
from metrics.logs import EventLog

# How long the upstream may pause within a film.
PAUSE_SECONDS = 30.0

# Headers passed through: of the request to the upstream, and of its response.
PASSED_REQUEST_HEADERS = ("Range", "If-Range")
PASSED_HEADERS = ("Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")
_FILM = re.compile(r"video/[\w.+-]{1,60}", re.ASCII)
_ANY = "application/octet-stream"


class ContentHandler(ApiHandler):
    """One film, whole or in part (RFC 9110, 14)."""

    async def on_get(self, task_id: str) -> None:
        job = await self._linked(task_id)
        with media_of(self).films.reading(job.id, job.account_id):
            response = await self._opened(job)
            try:
                self._take_head(response)
                if self.request.method != "HEAD":
                    await self._send(response)
            finally:
                response.close()

    on_head = on_get

    async def _linked(self, task_id: str) -> Job:
        """Return the job of the link. Raises GatewayError."""
        query, media = self.get_query_argument, media_of(self)
        is_good = media.content_links.is_good(
            task_id, query("expires", ""), query("signature", ""), now=self.services.clock.now()
        )
        if not is_good:
            raise errors.GatewayError(
                errors.PERMISSION_DENIED, "The link is not valid, or has expired."
            )
        OWNER.set(task_id)
        job = await media.jobs.read_linked(task_id)
        if job is None or job.state != "succeeded":
            raise errors.GatewayError(errors.NOT_FOUND, "There is no film of this id.")
        return job

    async def _opened(self, job: Job) -> UpstreamResponse:
        headers = self.request.headers
        asked = [(name, headers[name]) for name in PASSED_REQUEST_HEADERS if name in headers]
        try:
            return await media_of(self).content.open(job, asked)
        except ContentUnavailable as error:
            raise errors.GatewayError(
                errors.NO_CHANNEL_AVAILABLE, "The film cannot be read now."
            ) from error
        except TimeoutError as error:
            raise errors.GatewayError(
                errors.UPSTREAM_TIMEOUT, "The upstream did not answer in time."
            ) from error
        except UpstreamError as error:
            raise errors.GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)) from error

    def _take_head(self, response: UpstreamResponse) -> None:
        """Set the head of the response. Raises GatewayError if the upstream returns no film."""
        status = response.status
        redactor = self.services.current.redactor
        headers = {name: sendable(response.header(name), redactor) for name in PASSED_HEADERS}
        if status == 416:
            content_range = headers["Content-Range"]
            raise errors.GatewayError(
                errors.INVALID_REQUEST,
                "The film does not have this part.",
                http_status=416,
                headers={"Content-Range": content_range} if content_range else {},
            )
        if status in (404, 410):
            raise errors.GatewayError(
                errors.NOT_FOUND, "The upstream does not keep the film any more."
            )
        if status not in (200, 206):
            raise from_upstream(429 if status == 429 else 502, "The upstream gave no film.")
        self.set_status(status)
        stated = (sendable(response.header("Content-Type"), redactor) or "").strip()
        self.set_header("Content-Type", stated if _FILM.fullmatch(stated) else _ANY)
        for name, value in headers.items():
            if value is not None:
                self.set_header(name, value)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "private, max-age=3600")

    async def _send(self, response: UpstreamResponse) -> None:
        """Pass the film through; a cut one closes the connection, so that its client notices."""
        pieces = aiter(response.chunks())
        try:
            while True:
                try:
                    async with asyncio.timeout(PAUSE_SECONDS):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                self.write(piece)
                await self.flush()
        except (UpstreamError, TimeoutError) as error:
            EventLog("gw.web").warning("film_cut", trace=self.call_id.hex, why=repr(error))
            self.break_off()
