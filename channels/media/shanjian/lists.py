"""Templates, which are in pages, and the avatars and voices of every account.

Only a template's details state whether it has a title and a persona, so they are requested one by
one to complete a list, which the gateway caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from channels.json.lenient import read_loosely
from channels.media import model, outcomes, replies, values
from channels.media.plain.lists import UNREADABLE, canvas_of
from channels.media.shanjian.envelope import GOOD, reported

TEMPLATES = "/v1/clip/template"
DETAIL = "/v1/clip/template/detail"
AVATARS = "/v1/assets/virtualman/common"
VOICES = "/v1/assets/voice/common"

PAGE_SIZE = 100
PAGES_MAX = 20
TEMPLATES_MAX = PAGES_MAX * PAGE_SIZE
# The most details requested for one list; later templates have every flag.
DETAILS_MAX = 300

_LAYER = "Layer"
_TITLE, _PERSONA = "headerLayer", "ipLayer"
_NO_TEMPLATE = replies.Refused(status=404, message="There is no such template.")

T = TypeVar("T")
Entry = Mapping[str, object]


def _get(
    path: str,
    read: Callable[[model.MediaResponse], T | model.Exchange[T]],
    query: tuple[tuple[str, str], ...] = (),
) -> model.Exchange[T]:
    request = model.MediaRequest(method="GET", path=path, query=query)
    return model.Exchange(request=request, read=read, response_bytes_max=model.CATALOG_BYTES_MAX)


def _data(
    response: model.MediaResponse,
) -> replies.Refused | replies.Failed | replies.CatalogValue[Any]:
    """Return the data of an envelope, or its failure."""
    if not outcomes.is_ok(response):
        return outcomes.catalog_refusal(response)
    value = values.json_of(response)
    code = values.word(values.member(value, "code")).lower()
    if code == GOOD:
        return replies.CatalogValue(values.member(value, "data"))
    return reported(code, value) if code else UNREADABLE


@dataclass(frozen=True, slots=True)
class _Listing:
    """The templates read so far."""

    scene: str
    found: tuple[replies.Template, ...] = ()
    seen: frozenset[str] = frozenset()  # the pages read
    checked: int = 0  # the number of `found` with known details


Templates = replies.CatalogReply[tuple[replies.Template, ...]]


def templates(scene: str) -> model.Exchange[Templates]:
    """Request the templates of a scene, page by page, then their details."""
    return _page(_Listing(scene), None)


def _page(listing: _Listing, sid: str | None) -> model.Exchange[Templates]:
    def read(response: model.MediaResponse) -> Templates | model.Exchange[Templates]:
        data = _data(response)
        if not isinstance(data, replies.CatalogValue):
            return data
        results = values.member(data.value, "results")
        if not isinstance(results, list):
            return UNREADABLE
        found = tuple(one for one in map(_template, values.entries(results)) if one is not None)
        following = values.identifier(values.member(data.value, "sid"))
        seen = listing.seen | ({sid} if sid else set())
        grown = replace(
            listing, found=(listing.found + found)[:TEMPLATES_MAX], seen=frozenset(seen)
        )
        is_last = following is None or following in seen or not found
        if is_last or len(seen) + 1 >= PAGES_MAX:
            return _details(grown)
        return _page(grown, following)

    query = (("scene", listing.scene), ("pageSize", str(PAGE_SIZE)))
    return _get(TEMPLATES, read, query if sid is None else (*query, ("sid", sid)))


def _details(listing: _Listing) -> Templates | model.Exchange[Templates]:
    """Request the missing details; after a failure a template keeps every flag."""
    position = listing.checked
    if position >= min(len(listing.found), DETAILS_MAX):
        return replies.CatalogValue(listing.found)
    template = listing.found[position]

    def read(response: model.MediaResponse) -> Templates | model.Exchange[Templates]:
        data = _data(response)
        flagged = template
        if (
            isinstance(data, replies.CatalogValue)
            and (layers := _edit_info(data.value)) is not None
        ):
            flagged = _flagged(template, layers)
        found = (*listing.found[:position], flagged, *listing.found[position + 1 :])
        return _details(replace(listing, found=found, checked=position + 1))

    return _get(f"{DETAIL}/{model.segment(template.id)}", read)


def _template(value: Entry) -> replies.Template | None:
    template_id = values.identifier(value.get("id"))
    if template_id is None:
        return None
    return replies.Template(
        id=template_id,
        title=values.text(value.get("name")),
        cover=values.link(value.get("coverUrl")),
    )


def _flagged(template: replies.Template, layers: Entry) -> replies.Template:
    return replies.Template(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=bool(layers.get(_TITLE)),
        has_persona=bool(layers.get(_PERSONA)),
    )


def _edit_info(data: object) -> Entry | None:
    """Return the layers of a template; some responses have them as JSON in a string."""
    structure = values.member(data, "videoStructInfo")
    if isinstance(structure, str):
        structure = read_loosely(structure.encode("utf-8", "replace"), mends=False)
    found = values.member(structure, "editInfo")
    return found if isinstance(found, Mapping) else None


def template(template_id: str) -> model.Exchange[replies.CatalogReply[replies.TemplateDetail]]:
    """Request one template."""

    def read(response: model.MediaResponse) -> replies.CatalogReply[replies.TemplateDetail]:
        data = _data(response)
        if isinstance(data, replies.Refused) and data.status == 400:
            return _NO_TEMPLATE  # only the id can be at fault
        if not isinstance(data, replies.CatalogValue):
            return data
        if not isinstance(data.value, Mapping):
            return _NO_TEMPLATE
        return replies.CatalogValue(_detail(template_id, data.value))

    return _get(f"{DETAIL}/{model.segment(template_id)}", read)


def _detail(template_id: str, data: Entry) -> replies.TemplateDetail:
    layers = _edit_info(data)
    canvas = values.member(layers, "canvas")
    return replies.TemplateDetail(
        id=template_id,
        title=values.text(data.get("name")),
        cover=values.link(data.get("coverUrl")),
        has_title=layers is None or bool(layers.get(_TITLE)),
        has_persona=layers is None or bool(layers.get(_PERSONA)),
        scene=values.text(data.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, Mapping) else None,
        layers=() if layers is None else tuple(_layers(layers)),
    )


def _layers(edit_info: Entry) -> list[replies.Layer]:
    """Return all layers; title and persona are editable."""
    found = []
    for name, value in edit_info.items():
        if not name.endswith(_LAYER):
            continue
        kind = values.text(name.removesuffix(_LAYER))
        for one in values.entries(value if isinstance(value, list) else [value]):
            found.append(
                replies.Layer(
                    id=values.identifier(one.get("id")),
                    type=kind,
                    name=values.text(one.get("name")),
                    editable=name in (_TITLE, _PERSONA),
                )
            )
    return found


def preset_avatars() -> model.Exchange[replies.CatalogReply[tuple[replies.PresetAvatar, ...]]]:
    """Request the avatars of every account."""
    return _get(AVATARS, lambda response: _all(response, "virtualmanId", _avatar))


def preset_voices() -> model.Exchange[replies.CatalogReply[tuple[replies.PresetVoice, ...]]]:
    """Request the voices of every account."""
    return _get(VOICES, lambda response: _all(response, "speakerId", _preset_voice))


def _all(
    response: model.MediaResponse, id_name: str, read: Callable[[str, Entry], T]
) -> replies.CatalogReply[tuple[T, ...]]:
    """Return the entries of a list, or of an object's `results`."""
    data = _data(response)
    if not isinstance(data, replies.CatalogValue):
        return data
    results = data.value if isinstance(data.value, list) else values.member(data.value, "results")
    if not isinstance(results, list):
        return UNREADABLE
    with_ids = (
        (values.identifier(one.get(id_name)) or values.identifier(one.get("id")), one)
        for one in values.entries(results)
    )
    return replies.CatalogValue(
        tuple(read(one_id, one) for one_id, one in with_ids if one_id is not None)
    )


def _avatar(avatar_id: str, value: Entry) -> replies.PresetAvatar:
    return replies.PresetAvatar(id=avatar_id, name=values.text(value.get("name")) or avatar_id)


def _preset_voice(voice_id: str, value: Entry) -> replies.PresetVoice:
    return replies.PresetVoice(
        id=voice_id,
        name=values.text(value.get("name")) or voice_id,
        language=values.text(value.get("language")),
        preview_url=values.link(value.get("demoUrl")) or values.link(value.get("audioUrl")),
    )
