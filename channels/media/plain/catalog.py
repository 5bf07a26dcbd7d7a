"""Lists on the plain wire: templates, avatars and voices that everybody may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from channels.media.base import segment
from channels.media.model import CATALOG_BYTES_MAX, Exchange, MediaRequest, MediaResponse
from channels.media.outcomes import catalog_refusal, is_ok
from channels.media.plain import paths
from channels.media.replies import (
    Canvas,
    CatalogReply,
    CatalogValue,
    Failed,
    Layer,
    PresetAvatar,
    PresetVoice,
    Template,
    TemplateDetail,
)
from channels.media.values import entries, identifier, json_of, link, member, number, text

T = TypeVar("T")
Entry = Mapping[str, Any]

UNREADABLE = Failed(status=502, message="The upstream's list cannot be read.")


def ask(
    path: str,
    read: Callable[[Any], T | None],
    *,
    query: tuple[tuple[str, str], ...] = (),
) -> Exchange[CatalogReply[T]]:
    """Ask for a list; `read` makes it of the JSON value, None where it cannot."""

    def read_response(response: MediaResponse) -> CatalogReply[T]:
        if not is_ok(response):
            return catalog_refusal(response)
        value = read(json_of(response))
        return UNREADABLE if value is None else CatalogValue(value)

    request = MediaRequest(method="GET", path=path, query=query)
    return Exchange(request=request, read=read_response, response_bytes_max=CATALOG_BYTES_MAX)


def templates(scene: str) -> Exchange[CatalogReply[tuple[Template, ...]]]:
    """The templates of a scene."""
    return ask(
        paths.TEMPLATES,
        lambda value: _all(member(value, "templates"), _template),
        query=(("scene", scene),),
    )


def template(template_id: str) -> Exchange[CatalogReply[TemplateDetail]]:
    """One template."""
    return ask(f"{paths.TEMPLATES}/{segment(template_id)}", _detail)


def preset_avatars() -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]]:
    """The avatars that everybody may use."""
    return ask(paths.PRESET_AVATARS, lambda value: _all(member(value, "avatars"), _avatar))


def preset_voices() -> Exchange[CatalogReply[tuple[PresetVoice, ...]]]:
    """The preset voices; those that were cloned for an account are left out."""
    return ask(paths.VOICES, lambda value: _all(member(value, "voices"), _voice))


def _all(value: Any, read: Callable[[Entry, str], T | None]) -> tuple[T, ...] | None:
    """The entries that have an id and are wanted; None for what is no list."""
    if not isinstance(value, list):
        return None
    with_ids = ((one, identifier(one.get("id"))) for one in entries(value))
    found = (read(one, one_id) for one, one_id in with_ids if one_id is not None)
    return tuple(one for one in found if one is not None)


def _template(value: Entry, template_id: str) -> Template:
    return Template(
        id=template_id,
        title=text(value.get("title")),
        cover=link(value.get("cover")),
        has_title=value.get("has_title") is not False,
        has_persona=value.get("has_persona") is not False,
    )


def _detail(value: Any) -> TemplateDetail | None:
    template_id = identifier(member(value, "id"))
    if template_id is None:
        return None
    template = _template(value, template_id)
    canvas = value.get("canvas")
    return TemplateDetail(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=template.has_title,
        has_persona=template.has_persona,
        scene=text(value.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, dict) else None,
        layers=tuple(
            Layer(
                id=identifier(one.get("id")),
                type=text(one.get("type")),
                name=text(one.get("name")),
                editable=one.get("editable") is True,
            )
            for one in entries(value.get("layers"))
        ),
    )


def canvas_of(value: Entry) -> Canvas:
    """Width, height and ratio, as far as they are there."""
    width, height = number(value.get("width")), number(value.get("height"))
    return Canvas(
        width=None if width is None else int(width),
        height=None if height is None else int(height),
        ratio=text(value.get("ratio")),
    )


def _avatar(value: Entry, avatar_id: str) -> PresetAvatar:
    return PresetAvatar(id=avatar_id, name=text(value.get("name")) or avatar_id)


def _voice(value: Entry, voice_id: str) -> PresetVoice | None:
    if value.get("kind") == "cloned":
        return None
    return PresetVoice(
        id=voice_id,
        name=text(value.get("name")) or voice_id,
        language=text(value.get("language")),
        preview_url=link(value.get("preview_url")),
    )
