"""Lists of the plain wire: templates, and the avatars and voices of every account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from channels.media import model, outcomes, replies, values
from channels.media.plain import submits

T = TypeVar("T")
Entry = Mapping[str, object]

UNREADABLE = replies.Failed(status=502, message="The upstream's list cannot be read.")


def ask(
    path: str,
    read: Callable[[object], T | None],
    *,
    query: tuple[tuple[str, str], ...] = (),
) -> model.Exchange[replies.CatalogReply[T]]:
    """Request a list; `read` parses the JSON value, None if it cannot."""

    def read_response(response: model.MediaResponse) -> replies.CatalogReply[T]:
        if not outcomes.is_ok(response):
            return outcomes.catalog_refusal(response)
        value = read(values.json_of(response))
        return UNREADABLE if value is None else replies.CatalogValue(value)

    request = model.MediaRequest(method="GET", path=path, query=query)
    return model.Exchange(
        request=request, read=read_response, response_bytes_max=model.CATALOG_BYTES_MAX
    )


def templates(scene: str) -> model.Exchange[replies.CatalogReply[tuple[replies.Template, ...]]]:
    """Request the templates of a scene."""
    return ask(
        submits.TEMPLATES,
        lambda value: _all(values.member(value, "templates"), _template),
        query=(("scene", scene),),
    )


def template(template_id: str) -> model.Exchange[replies.CatalogReply[replies.TemplateDetail]]:
    """Request one template."""
    return ask(f"{submits.TEMPLATES}/{model.segment(template_id)}", _detail)


def preset_avatars() -> model.Exchange[replies.CatalogReply[tuple[replies.PresetAvatar, ...]]]:
    """Request the avatars of every account."""
    return ask(submits.PRESET_AVATARS, lambda value: _all(values.member(value, "avatars"), _avatar))


def preset_voices() -> model.Exchange[replies.CatalogReply[tuple[replies.PresetVoice, ...]]]:
    """Request the preset voices, without those cloned for an account."""
    return ask(submits.VOICES, lambda value: _all(values.member(value, "voices"), _voice))


def _all(value: object, read: Callable[[Entry, str], T | None]) -> tuple[T, ...] | None:
    """Return the entries with an id that `read` accepts; None if the value is no list."""
    if not isinstance(value, list):
        return None
    with_ids = ((one, values.identifier(one.get("id"))) for one in values.entries(value))
    found = (read(one, one_id) for one, one_id in with_ids if one_id is not None)
    return tuple(one for one in found if one is not None)


def _template(value: Entry, template_id: str) -> replies.Template:
    return replies.Template(
        id=template_id,
        title=values.text(value.get("title")),
        cover=values.link(value.get("cover")),
        has_title=value.get("has_title") is not False,
        has_persona=value.get("has_persona") is not False,
    )


def _detail(value: object) -> replies.TemplateDetail | None:
    template_id = values.identifier(values.member(value, "id"))
    if template_id is None or not isinstance(value, Mapping):
        return None
    template = _template(value, template_id)
    canvas = value.get("canvas")
    return replies.TemplateDetail(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=template.has_title,
        has_persona=template.has_persona,
        scene=values.text(value.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, dict) else None,
        layers=tuple(
            replies.Layer(
                id=values.identifier(one.get("id")),
                type=values.text(one.get("type")),
                name=values.text(one.get("name")),
                editable=one.get("editable") is True,
            )
            for one in values.entries(value.get("layers"))
        ),
    )


def canvas_of(value: Entry) -> replies.Canvas:
    """Return width, height and ratio, as far as stated."""
    width, height = values.number(value.get("width")), values.number(value.get("height"))
    return replies.Canvas(
        width=None if width is None else int(width),
        height=None if height is None else int(height),
        ratio=values.text(value.get("ratio")),
    )


def _avatar(value: Entry, avatar_id: str) -> replies.PresetAvatar:
    return replies.PresetAvatar(id=avatar_id, name=values.text(value.get("name")) or avatar_id)


def _voice(value: Entry, voice_id: str) -> replies.PresetVoice | None:
    if value.get("kind") == "cloned":
        return None
    return replies.PresetVoice(
        id=voice_id,
        name=values.text(value.get("name")) or voice_id,
        language=values.text(value.get("language")),
        preview_url=values.link(value.get("preview_url")),
    )
