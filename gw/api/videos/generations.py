"""`/v1/videos/generations`: videos are submitted, polled and listed.

Spec: Video generation; Digital human and smart edit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from msgspec.structs import replace

from actors.catalogs import CatalogUnavailable
from actors.jobs.content import ContentUnavailable
from actors.jobs.job import Job
from actors.jobs.service import new_job_id
from actors.media_store.copies import Kept
from actors.media_store.storage import LocalFile, StorageFault
from actors.wallet.piece_prices import MediaPrice
from channels.errors import UpstreamError
from channels.families import VIDEOS
from channels.http.interfaces import UpstreamResponse
from channels.media.canonical import AvatarVideo, Video, VideoResult
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.api.submit import (
    KeyedHandler,
    MediaSubmit,
    Shown,
    avatar_of,
    error_of,
    listed,
    media_of,
    polled,
    voice_of,
)
from gw.calls.call import sendable
from gw.calls.media import Pin
from gw.errors import (
    INVALID_REQUEST,
    NO_CHANNEL_AVAILABLE,
    NOT_FOUND,
    PERMISSION_DENIED,
    UPSTREAM_TIMEOUT,
    UPSTREAM_UNREACHABLE,
    GatewayError,
    unserved,
)
from gw.media import reading
from gw.media.reading import model_of
from gw.media.videos import (
    held_milliseconds,
    priced_resolution,
    read_video,
    unreported_milliseconds,
)
from gw.upstream_errors import as_http_status, from_upstream
from metrics.logs import EventLog

# A video task as clients see it (spec: Video task).

# Returns the link to a job's film served by the gateway, valid until an instant (Unix seconds).
ContentLink = Callable[[Job, float], str]


def shown(job: Job, content_link: ContentLink) -> dict[str, Any]:
    """Return the members of a task; `content_link` makes links to films that have none."""
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


# Ids of models whose errors are 404 and 403 (spec: Errors 6).
HUMANS_AND_CLIPS = ("dh-", "clip-")


class VideosHandler(KeyedHandler):
    """Submits videos for their price, and lists them for free."""

    route = "videos"
    protocol = VIDEOS.protocol

    async def on_get(self) -> None:
        self.write(await listed(self, "video", reading.VIDEOS, _shown_by(self)))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "video")
        request = await self._read(submit)
        request, pins = await self._referenced(request)
        price = MediaPrice.of(submit.model, resolution=priced_resolution(request))
        held = held_milliseconds(request)
        quantity = unreported_milliseconds(request)
        call = submit.job_call(
            request,
            job_id=new_job_id("video"),
            job=media.jobs.new_job("video", price=price, quantity=quantity, held=held),
            hold_nano_usd=price.cost_nano_usd(held),
            cheaper="or ask for fewer seconds.",
            status="queued",
            pins=pins,
        )
        await submit.run_detached(call, media.video_submit)

    async def _read(self, submit: MediaSubmit) -> Video:
        """Return the request, validated by the rules of its model. Raises GatewayError."""
        try:
            submit.find_model(await submit.parsed(model_of))
            model = submit.model
            request = await submit.parsed(read_video, model.id, model.video)
        except GatewayError as error:
            self._refuse(error)
        if request is None:
            raise unserved(f"films of the kind of `{submit.model.id}`")
        submit.show(request)
        if request.portrait_auth is not None:
            submit.detail["portrait_auth"] = request.portrait_auth
        return request

    def _refuse(self, error: GatewayError) -> NoReturn:
        """Raise the error of a model, with the status of its kind of videos."""
        known = self.services.current.registry.resolve(self.model_name or "")
        model_id = self.model_name if known is None else known.id
        is_human_or_clip = (model_id or "").startswith(HUMANS_AND_CLIPS)
        raise as_http_status(error) if is_human_or_clip else error

    async def _referenced(self, request: Video) -> tuple[Video, tuple[Pin, ...]]:
        """Return the request with the upstream's names of its references, and their channels.

        Raises GatewayError and StoreUnavailable.
        """
        if not isinstance(request, AvatarVideo):
            return request, ()
        media, account_id = media_of(self), self.principal.account_id
        try:
            avatar = await avatar_of(
                request.avatar, media.jobs, media.catalogs, account_id=account_id
            )
            request, pins = replace(request, avatar=avatar.upstream_id), avatar.pins
            if request.voice is not None:
                voice = await voice_of(
                    request.voice, media.voices, media.catalogs, account_id=account_id
                )
                request, pins = replace(request, voice=voice.upstream_id), (*pins, *voice.pins)
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        return request, pins


class VideoHandler(ApiHandler):
    """One task."""

    route = "video"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "video", task_id, _shown_by(self)))


def _shown_by(handler: ApiHandler) -> Shown:
    """Return the rendering of tasks, with our links where the upstream has none."""
    return partial(shown, content_link=media_of(handler).content_links.link)


# `GET /v1/videos/generations/{id}/content`: a film whose upstream requires our key.
#
# It needs no key: the signature proves that the gateway made the link. The film is passed through
# in pieces; a slow client slows the upstream down, and nothing is stored.

# How long the upstream may pause within a film.
PAUSE_SECONDS = 30.0

# Headers passed through: of the request to the upstream, and of its response.
PASSED_REQUEST_HEADERS = ("Range", "If-Range")
PASSED_HEADERS = ("Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")
_FILM = re.compile(r"video/[\w.+-]{1,60}", re.ASCII)
_ANY = "application/octet-stream"


class ContentHandler(ApiHandler):
    """One film, whole or in part (RFC 9110, 14)."""

    route = "video_content"
    auth = "none"

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
            raise GatewayError(PERMISSION_DENIED, "The link is not valid, or has expired.")
        job = await media.jobs.read_linked(task_id)
        if job is None or job.state != "succeeded":
            raise GatewayError(NOT_FOUND, "There is no film of this id.")
        return job

    async def _opened(self, job: Job) -> UpstreamResponse:
        headers = self.request.headers
        asked = [(name, headers[name]) for name in PASSED_REQUEST_HEADERS if name in headers]
        try:
            return await media_of(self).content.open(job, asked)
        except ContentUnavailable as error:
            raise GatewayError(NO_CHANNEL_AVAILABLE, "The film cannot be read now.") from error
        except TimeoutError as error:
            raise GatewayError(UPSTREAM_TIMEOUT, "The upstream did not answer in time.") from error
        except UpstreamError as error:
            raise GatewayError(UPSTREAM_UNREACHABLE, str(error)) from error

    def _take_head(self, response: UpstreamResponse) -> None:
        """Set the head of the response. Raises GatewayError if the upstream returns no film."""
        status = response.status
        redactor = self.services.current.redactor
        headers = {name: sendable(response.header(name), redactor) for name in PASSED_HEADERS}
        if status == 416:
            content_range = headers["Content-Range"]
            raise GatewayError(
                INVALID_REQUEST,
                "The film does not have this part.",
                http_status=416,
                headers={"Content-Range": content_range} if content_range else {},
            )
        if status in (404, 410):
            raise GatewayError(NOT_FOUND, "The upstream does not keep the film any more.")
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


# `GET /v1/media/{name}`: a copy of a result, for clients with a valid signed link.
#
# A copy in a folder is sent from here, whole or in part (RFC 9110, 14); for a copy in a bucket the
# client is redirected to the storage, by a link of the storage that is valid for an hour.

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class MediaFileHandler(ApiHandler):
    """Serves without a key: the signature proves that the gateway made the link."""

    route = "media_file"
    auth = "none"

    async def on_get(self, name: str) -> None:
        store, query = self.services.media_store, self.get_query_argument
        if store is None or not store.is_good_link(
            self.request.path or "", query("expires", ""), query("signature", "")
        ):
            raise GatewayError(PERMISSION_DENIED, "The link is not valid, or has expired.")
        try:
            found = await store.served(name)
        except StorageFault as fault:
            raise _unreadable() from fault
        if found is None:
            raise GatewayError(NOT_FOUND, "The file is not kept any more.")
        kept, source = found
        if isinstance(source, str):
            self.set_status(307)
            self.set_header("Location", source)
            self.finish(b"")
            return
        try:
            with self.services.copies.reading(name):
                await self._send(kept, source)
        finally:
            await source.close()

    on_head = on_get

    async def _send(self, kept: Kept, file: LocalFile) -> None:
        start, end = self._range(kept)
        self.set_header("Content-Type", kept.content_type)
        self.set_header("Content-Length", str(end - start))
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Etag", _tag(kept))
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "private, max-age=604800")
        if self.request.method != "HEAD":
            try:
                async for piece in file.pieces(start, end):
                    self.write(piece)
                    await self.flush()
            except StorageFault as fault:
                if not self.request.has_head_out:
                    raise _unreadable() from fault
                # The connection is closed, so that the client notices the missing part.
                EventLog("gw.web").warning("media_file_cut", trace=self.call_id.hex, why=str(fault))
                self.break_off()
                return
        self.finish()

    def _range(self, kept: Kept) -> tuple[int, int]:
        """Return the first byte and the one after the last; the whole copy without a `Range`."""
        headers = self.request.headers
        match = _RANGE.fullmatch(headers.get("Range", ""))
        if match is None or match.group() == "bytes=-":
            return 0, kept.size
        if headers.get("If-Range", _tag(kept)) != _tag(kept):
            return 0, kept.size
        first, last = match.groups()
        start = int(first) if first else max(0, kept.size - int(last))
        end = min(kept.size, int(last) + 1) if first and last else kept.size
        if start >= end:
            raise GatewayError(
                INVALID_REQUEST,
                f"The file has {kept.size} bytes.",
                http_status=416,
                headers={"Content-Range": f"bytes */{kept.size}"},
            )
        self.set_status(206)
        self.set_header("Content-Range", f"bytes {start}-{end - 1}/{kept.size}")
        return start, end


def _unreadable() -> GatewayError:
    return GatewayError(NO_CHANNEL_AVAILABLE, "The file cannot be read now.")


def _tag(kept: Kept) -> str:
    return f'"{kept.id}"'
