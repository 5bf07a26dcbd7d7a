"""The templates of smart edit: lists, and single ones (reference 7.5)."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from actors.catalogs import CatalogUnavailable
from channels.dialects.faults import described
from channels.media.replies import Canvas, Layer, Template, TemplateDetail
from channels.media.values import identifier
from gw import errors
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.error_bodies import dumps
from gw.media.clips import TEMPLATE_SCENES
from gw.media.videos import CLIP


class Templates(TypedDict):
    """Templates of films."""

    templates: Annotated[list[Template], Meta(description="The templates.")]


class WholeTemplate(Template, frozen=True, kw_only=True):
    """A template with its canvas and layers."""

    scene: Annotated[str | None, Meta(description="The kind of film.")]
    canvas: Annotated[Canvas, Meta(description="The size of its picture.")]
    layers: Annotated[list[Layer], Meta(description="What lies upon it, lowest first.")]


def require_clips(handler: ApiHandler) -> None:
    """Raise GatewayError for a key whose allowlist names no clip model."""
    allowed = handler.principal.allowed_models
    if allowed is not None and not any(model.startswith(CLIP) for model in allowed):
        raise errors.GatewayError(
            errors.MODEL_NOT_ALLOWED, "This API key may use no clip model.", http_status=403
        )


class TemplatesHandler(ApiHandler):
    """`GET /v1/videos/clip-templates`: the templates of one scene, or of all scenes in turn."""

    async def on_get(self) -> None:
        scene = self.get_query_argument("scene", "")
        if scene and scene not in TEMPLATE_SCENES:
            raise errors.GatewayError(
                errors.INVALID_REQUEST,
                f"scene: expected one of {', '.join(TEMPLATE_SCENES)}, found {described(scene)}.",
                param="scene",
            )
        require_clips(self)
        listed: dict[str, Template] = {}
        try:
            for one in (scene,) if scene else TEMPLATE_SCENES:
                for template in await self.services.media.catalogs.templates(one):
                    listed.setdefault(template.id, template)
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        self.write(dumps({"templates": [_shown(template) for template in listed.values()]}))


class TemplateHandler(ApiHandler):
    """`GET /v1/videos/clip-templates/{id}`: canvas and layers of one template."""

    async def on_get(self, template_id: str) -> None:
        require_clips(self)
        template: TemplateDetail | None = None
        if identifier(template_id) is not None:
            try:
                template = await self.services.media.catalogs.template(template_id)
            except CatalogUnavailable as failure:
                raise unavailable(failure, self.services.current.redactor) from failure
        if template is None:
            raise errors.GatewayError(errors.NOT_FOUND, "There is no template of this id.")
        shown = _shown(template) | {
            "scene": template.scene,
            "canvas": msgspec.to_builtins(template.canvas or Canvas()),
            "layers": msgspec.to_builtins(template.layers),
        }
        self.write(dumps(shown))


def _shown(template: Template) -> dict[str, Any]:
    """Return a template as lists show it."""
    return {name: getattr(template, name) for name in Template.__struct_fields__}
