"""`/v1/videos/generations`: films are submitted, polled and listed (spec: Video generation; Digital
human and smart edit)."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from actors.catalogs.catalogs import CatalogUnavailable
from actors.jobs.jobs import new_job_id
from actors.wallet.unit_pricing import MediaPrice
from channels.families import VIDEOS
from channels.media.requests import AvatarVideo, Video
from gw.api.base import ApiHandler
from gw.api.catalogs import unavailable
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.references import avatar_of, voice_of
from gw.api.task_lists import Shown, listed, polled
from gw.api.videos.shown import shown
from gw.calls.job import Pin
from gw.errors.table import (
    NO_CHANNEL_AVAILABLE,
    GatewayError,
    as_http_status,
)
from gw.media import (
    held_milliseconds,
    lists,
    model_of,
    priced_resolution,
    read_video,
    unreported_milliseconds,
)

# Ids of models whose errors say 404 and 403 (spec: Errors 6).
HUMANS_AND_CLIPS = ("dh-", "clip-")


class VideosHandler(ApiHandler):
    """Films: a task is begun for its price, the list is free."""

    route = "videos"
    protocol = VIDEOS.protocol
    limited = billed = idempotent = True

    async def on_get(self) -> None:
        self.write(await listed(self, "video", lists.VIDEOS, _shown_by(self)))

    async def on_post(self) -> None:
        media, submit = media_of(self), await MediaSubmit.begin(self, "video")
        request = await self._read(submit)
        request, pins = await self._referenced(request)
        price = MediaPrice.of(submit.model, resolution=priced_resolution(request))
        call = submit.job_call(
            request,
            job_id=new_job_id("video"),
            job=media.jobs.new_job("video", price=price, quantity=unreported_milliseconds(request)),
            hold_nano_usd=price.cost_nano_usd(held_milliseconds(request)),
            cheaper="or ask for fewer seconds.",
            status="queued",
            pins=pins,
        )
        await submit.run_job(call, media.video_submit)

    async def _read(self, submit: MediaSubmit) -> Video:
        """The request: what a body may have depends on the model it names. Raises GatewayError."""
        try:
            submit.find_model(await submit.parsed(model_of))
            model = submit.model
            request = await submit.parsed(read_video, model.id, model.video)
        except GatewayError as error:
            self._refuse(error)
        if request is None:
            raise GatewayError(
                NO_CHANNEL_AVAILABLE, f"Nobody makes films of the kind of `{submit.model.id}`."
            )
        submit.show(request)
        if request.portrait_auth is not None:
            submit.detail["portrait_auth"] = request.portrait_auth
        return request

    def _refuse(self, error: GatewayError) -> NoReturn:
        """Raise the error of a model, with the status that its kind of films has for it."""
        known = self.services.registry().resolve(self.model_name or "")
        model_id = self.model_name if known is None else known.id
        is_human_or_clip = (model_id or "").startswith(HUMANS_AND_CLIPS)
        raise as_http_status(error) if is_human_or_clip else error

    async def _referenced(self, request: Video) -> tuple[Video, tuple[Pin, ...]]:
        """The request by the upstream's names of what it refers to, and where that is known.

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
            raise unavailable(failure, self.services.redact) from failure
        return request, pins


class VideoHandler(ApiHandler):
    """One task."""

    route = "video"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "video", task_id, _shown_by(self)))


def _shown_by(handler: ApiHandler) -> Shown:
    """How tasks are shown: with links of ours where the upstream has none."""
    return partial(shown, content_link=media_of(handler).content_links.link)
