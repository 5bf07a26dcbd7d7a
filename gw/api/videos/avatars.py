"""Avatars: registered, listed and deleted; presets (reference 7.5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from actors.catalogs import CatalogUnavailable
from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.families import AVATARS
from channels.media.replies import PresetAvatar
from channels.media.requests import AvatarRequest
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall, first_of
from gw.error_bodies import dumps
from gw.errors import INVALID_REQUEST, NOT_FOUND, GatewayError
from gw.media.registrations import read_avatar
from gw.upstream_errors import as_http_status

LIST_MAX = 200
(ENDPOINT_TYPE,) = (one.name for one in AVATARS.endpoint_types)
SHOWN: Mapping[State, str] = MappingProxyType(
    {"queued": "pending", "running": "pending", "succeeded": "ready"}
)


_Id = Annotated[str, Meta(description="The avatar's id, for `avatar` of a film.")]


class Avatar(TypedDict):
    """An avatar of the account's own."""

    id: _Id
    name: Annotated[str, Meta(description="Its name.")]
    source_kind: Annotated[str, Meta(description="What it is made of: `image` or `video`.")]
    status: Annotated[
        str,
        Meta(
            description="`ready`: films may use it.",
            extra_json_schema={"enum": ["pending", "ready", "failed"]},
        ),
    ]
    error: Annotated[str | None, Meta(description="Why it failed, if it did.")]
    created_at: Annotated[
        str,
        Meta(description="When it was submitted.", extra_json_schema={"format": "date-time"}),
    ]


class Avatars(TypedDict):
    """The account's avatars."""

    avatars: Annotated[
        list[Avatar], Meta(description=f"The avatars, newest first, {LIST_MAX} at most.")
    ]


class DeletedAvatar(TypedDict):
    """An avatar that is no more."""

    id: _Id
    deleted: Annotated[bool, Meta(description="Always true.")]


class PresetAvatars(TypedDict):
    """The avatars that every account may use."""

    avatars: Annotated[list[PresetAvatar], Meta(description="The presets.")]


class AvatarsHandler(KeyedHandler):
    """Registers avatars for their price, and lists them for free."""

    async def on_get(self) -> None:
        """List the account's avatars, newest first."""
        jobs = await media_of(self).jobs.list(self.principal.account_id, "avatar", limit=LIST_MAX)
        self.write(dumps({"avatars": [shown(job) for job in jobs]}))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "avatar")
        model = first_of(self.services.current.registry, ENDPOINT_TYPE)
        try:
            request = await submit.read_submission(read_avatar, model=lambda _: model)
        except GatewayError as error:
            raise as_http_status(error) from None
        price, job_id = submit.price(), new_job_id("avatar")
        fields = {"name": request.name, "source_kind": request.source_kind}
        call = submit.job_call(
            request,
            job_id=job_id,
            job=media.jobs.new_job("avatar", price=price, quantity=1, request=fields),
            hold_nano_usd=price.cost_nano_usd(1),
            cheaper="or use a preset avatar.",
            status="pending",
            response_body=dumps(self._begun(job_id, request)),
        )
        await submit.run_detached(call, media.video_submit)

    def _begun(self, job_id: str, request: AvatarRequest) -> Avatar:
        return _record(
            job_id,
            {"name": request.name, "source_kind": request.source_kind},
            "pending",
            None,
            self.request.submitted_at,
        )


class AvatarHandler(ApiHandler):
    """One avatar of the account."""

    async def on_get(self, avatar_id: str) -> None:
        self.write(dumps(shown(await self._find(avatar_id))))

    async def on_delete(self, avatar_id: str) -> None:
        """Hide the avatar; then delete it at its upstream."""
        media, account_id = media_of(self), self.principal.account_id
        job = await self._find(avatar_id)
        if not job.has_ended:
            raise GatewayError(INVALID_REQUEST, "This avatar is still being made.")
        if not await media.jobs.delete(account_id, "avatar", avatar_id):
            raise _unknown()  # deleted by a concurrent request
        if job.state == "succeeded":
            await media.upstreams.cancel(job)
        body: DeletedAvatar = {"id": avatar_id, "deleted": True}
        self.write(dumps(body))

    async def _find(self, avatar_id: str) -> Job:
        jobs = media_of(self).jobs
        job = await jobs.read(self.principal.account_id, "avatar", avatar_id)
        if job is None:
            raise _unknown()
        return job


class PresetAvatarsHandler(ApiHandler):
    """`GET /v1/videos/avatars/presets`: the presets, which every key may use."""

    async def on_get(self) -> None:
        try:
            offers = await media_of(self).catalogs.preset_avatars()
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        self.write(dumps({"avatars": [msgspec.to_builtins(offer.item) for offer in offers]}))


def shown(job: Job) -> Avatar:
    """Return an avatar as clients see it."""
    status = SHOWN.get(job.state, job.state)
    return _record(job.id, job.request, status, job.error_message, job.submitted_at)


def _record(
    avatar_id: str, fields: Mapping[str, Any], status: str, error: str | None, at: float
) -> Avatar:
    return {
        "id": avatar_id,
        "name": fields["name"],
        "source_kind": fields["source_kind"],
        "status": status,
        "error": error,
        "created_at": datetime.fromtimestamp(int(at), UTC).isoformat(),
    }


def _unknown() -> GatewayError:
    return GatewayError(NOT_FOUND, "There is no avatar of this id.")
