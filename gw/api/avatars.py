"""Avatars: registered, listed and deleted; presets; templates of smart edit (spec: Avatars)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec

from actors.catalogs import Catalogs, CatalogUnavailable
from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.dialects.faults import described
from channels.families import AVATARS
from channels.media.canonical import AvatarRequest, Canvas, Template, TemplateDetail
from channels.media.outcomes import identifier
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall, first_of
from gw.api.submit import KeyedHandler, MediaSubmit, media_of
from gw.error_bodies import dumps
from gw.errors import INVALID_REQUEST, MODEL_NOT_ALLOWED, NOT_FOUND, GatewayError
from gw.media.clips import TEMPLATE_SCENES
from gw.media.sounds import read_avatar
from gw.media.videos import CLIP
from gw.upstream_errors import as_http_status

LIST_MAX = 200
(ENDPOINT_TYPE,) = (one.name for one in AVATARS.endpoint_types)
SHOWN: Mapping[State, str] = MappingProxyType(
    {"queued": "pending", "running": "pending", "succeeded": "ready"}
)


class AvatarsHandler(KeyedHandler):
    """Registers avatars for their price, and lists them for free."""

    route = "avatars"
    protocol = AVATARS.protocol

    async def on_get(self) -> None:
        """List the account's avatars, newest first."""
        jobs = await media_of(self).jobs.list(self.principal.account_id, "avatar", limit=LIST_MAX)
        self.write(dumps({"avatars": [shown(job) for job in jobs]}))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "avatar")
        model = first_of(self.services.current.registry, ENDPOINT_TYPE)
        try:
            request = await submit.read(read_avatar, model=lambda _: model)
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

    def _begun(self, job_id: str, request: AvatarRequest) -> dict[str, Any]:
        return _record(
            job_id,
            {"name": request.name, "source_kind": request.source_kind},
            "pending",
            None,
            self.request.submitted_at,
        )


class AvatarHandler(ApiHandler):
    """One avatar of the account."""

    route = "avatar"
    limited = True

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
        self.write(dumps({"id": avatar_id, "deleted": True}))

    async def _find(self, avatar_id: str) -> Job:
        jobs = media_of(self).jobs
        job = await jobs.read(self.principal.account_id, "avatar", avatar_id)
        if job is None:
            raise _unknown()
        return job


class PresetAvatarsHandler(ApiHandler):
    """`GET /v1/videos/avatars/presets`: the presets, which every key may use."""

    route = "preset_avatars"
    limited = True

    async def on_get(self) -> None:
        try:
            offers = await media_of(self).catalogs.preset_avatars()
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        self.write(dumps({"avatars": [msgspec.to_builtins(offer.item) for offer in offers]}))


def shown(job: Job) -> dict[str, Any]:
    """Return an avatar as clients see it."""
    status = SHOWN.get(job.state, job.state)
    return _record(job.id, job.request, status, job.error_message, job.submitted_at)


def _record(
    avatar_id: str, fields: Mapping[str, Any], status: str, error: str | None, at: float
) -> dict[str, Any]:
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


# The templates of smart edit: lists, and single ones (spec: Avatars; contract §6).


class TemplatesApi(ApiHandler):
    """Free, for keys that may use at least one clip model."""

    limited = True

    @property
    def catalogs(self) -> Catalogs:
        """The lists of upstreams."""
        return self.services.media.catalogs

    def require_clips(self) -> None:
        """Raise GatewayError for a key whose allowlist names no clip model."""
        allowed = self.principal.allowed_models
        if allowed is not None and not any(model.startswith(CLIP) for model in allowed):
            raise GatewayError(
                MODEL_NOT_ALLOWED, "This API key may use no clip model.", http_status=403
            )


class TemplatesHandler(TemplatesApi):
    """`GET /v1/videos/clip-templates`: the templates of one scene, or of all scenes in turn."""

    route = "clip_templates"

    async def on_get(self) -> None:
        scene = self.get_query_argument("scene", "")
        if scene and scene not in TEMPLATE_SCENES:
            raise GatewayError(
                INVALID_REQUEST,
                f"scene: expected one of {', '.join(TEMPLATE_SCENES)}, found {described(scene)}.",
                param="scene",
            )
        self.require_clips()
        listed: dict[str, Template] = {}
        try:
            for one in (scene,) if scene else TEMPLATE_SCENES:
                for template in await self.catalogs.templates(one):
                    listed.setdefault(template.id, template)
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        self.write(dumps({"templates": [_shown(template) for template in listed.values()]}))


class TemplateHandler(TemplatesApi):
    """`GET /v1/videos/clip-templates/{id}`: canvas and layers of one template."""

    route = "clip_template"

    async def on_get(self, template_id: str) -> None:
        self.require_clips()
        template: TemplateDetail | None = None
        if identifier(template_id) is not None:
            try:
                template = await self.catalogs.template(template_id)
            except CatalogUnavailable as failure:
                raise unavailable(failure, self.services.current.redactor) from failure
        if template is None:
            raise GatewayError(NOT_FOUND, "There is no template of this id.")
        shown = _shown(template) | {
            "scene": template.scene,
            "canvas": msgspec.to_builtins(template.canvas or Canvas()),
            "layers": msgspec.to_builtins(template.layers),
        }
        self.write(dumps(shown))


def _shown(template: Template) -> dict[str, Any]:
    """Return a template as lists show it."""
    return {name: getattr(template, name) for name in Template.__struct_fields__}
