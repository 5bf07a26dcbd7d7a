"""Templates, which come in pages, and the avatars and voices that everybody may use.

Only a template's details hold whether it has a title and a persona. So they are fetched one after
another before a list is complete; the gateway keeps it for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from channels.json.lenient import read_loosely
from channels.media.base import segment
from channels.media.model import CATALOG_BYTES_MAX, Exchange, MediaRequest, MediaResponse
from channels.media.outcomes import catalog_refusal, is_ok
from channels.media.plain.catalog import UNREADABLE, canvas_of
from channels.media.replies import (
    CatalogReply,
    CatalogValue,
    Failed,
    Layer,
    PresetAvatar,
    PresetVoice,
    Refused,
    Template,
    TemplateDetail,
)
from channels.media.shanjian.envelope import GOOD, reported
from channels.media.values import entries, identifier, json_of, link, member, text, word

TEMPLATES = "/v1/clip/template"
DETAIL = "/v1/clip/template/detail"
AVATARS = "/v1/assets/virtualman/common"
VOICES = "/v1/assets/voice/common"

PAGE_SIZE = 100
PAGES_MAX = 20
TEMPLATES_MAX = PAGES_MAX * PAGE_SIZE
# Details fetched to complete one list; what comes after has every flag.
DETAILS_MAX = 300

_LAYER = "Layer"
_TITLE, _PERSONA = "headerLayer", "ipLayer"
_NO_TEMPLATE = Refused(status=404, message="There is no such template.")

T = TypeVar("T")
Entry = Mapping[str, Any]


def _get(
    path: str,
    read: Callable[[MediaResponse], T | Exchange[T]],
    query: tuple[tuple[str, str], ...] = (),
) -> Exchange[T]:
    request = MediaRequest(method="GET", path=path, query=query)
    return Exchange(request=request, read=read, response_bytes_max=CATALOG_BYTES_MAX)


def _data(response: MediaResponse) -> Refused | Failed | CatalogValue[Any]:
    """What is in an envelope."""
    if not is_ok(response):
        return catalog_refusal(response)
    value = json_of(response)
    code = word(member(value, "code")).lower()
    if code == GOOD:
        return CatalogValue(member(value, "data"))
    return reported(code, value) if code else UNREADABLE


# --- Templates ---


@dataclass(frozen=True, slots=True)
class _Listing:
    """Templates as far as they are known."""

    scene: str
    found: tuple[Template, ...] = ()
    seen: frozenset[str] = frozenset()  # page marks
    checked: int = 0  # of `found`, whose details are known


Templates = CatalogReply[tuple[Template, ...]]


def templates(scene: str) -> Exchange[Templates]:
    """The templates of a scene, page by page, then their details."""
    return _page(_Listing(scene), None)


def _page(listing: _Listing, sid: str | None) -> Exchange[Templates]:
    def read(response: MediaResponse) -> Templates | Exchange[Templates]:
        data = _data(response)
        if not isinstance(data, CatalogValue):
            return data
        results = member(data.value, "results")
        if not isinstance(results, list):
            return UNREADABLE
        found = tuple(one for one in map(_template, entries(results)) if one is not None)
        following = identifier(member(data.value, "sid"))
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


def _details(listing: _Listing) -> Templates | Exchange[Templates]:
    """Ask for the details that are not known yet; one that cannot be had leaves its flags on."""
    position = listing.checked
    if position >= min(len(listing.found), DETAILS_MAX):
        return CatalogValue(listing.found)
    template = listing.found[position]

    def read(response: MediaResponse) -> Templates | Exchange[Templates]:
        data = _data(response)
        flagged = template
        if isinstance(data, CatalogValue) and (layers := _edit_info(data.value)) is not None:
            flagged = _flagged(template, layers)
        found = (*listing.found[:position], flagged, *listing.found[position + 1 :])
        return _details(replace(listing, found=found, checked=position + 1))

    return _get(f"{DETAIL}/{segment(template.id)}", read)


def _template(value: Entry) -> Template | None:
    template_id = identifier(value.get("id"))
    if template_id is None:
        return None
    return Template(
        id=template_id, title=text(value.get("name")), cover=link(value.get("coverUrl"))
    )


def _flagged(template: Template, layers: Entry) -> Template:
    return Template(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=bool(layers.get(_TITLE)),
        has_persona=bool(layers.get(_PERSONA)),
    )


def _edit_info(data: Any) -> Entry | None:
    """The layers of a template, which some responses hold as JSON within a string."""
    structure = member(data, "videoStructInfo")
    if isinstance(structure, str):
        structure = read_loosely(structure.encode("utf-8", "replace"), mends=False)
    found = member(structure, "editInfo")
    return found if isinstance(found, Mapping) else None


def template(template_id: str) -> Exchange[CatalogReply[TemplateDetail]]:
    """One template."""

    def read(response: MediaResponse) -> CatalogReply[TemplateDetail]:
        data = _data(response)
        if isinstance(data, Refused) and data.status == 400:
            return _NO_TEMPLATE  # the id is all that it can be about
        if not isinstance(data, CatalogValue):
            return data
        if not isinstance(data.value, Mapping):
            return _NO_TEMPLATE
        return CatalogValue(_detail(template_id, data.value))

    return _get(f"{DETAIL}/{segment(template_id)}", read)


def _detail(template_id: str, data: Entry) -> TemplateDetail:
    layers = _edit_info(data)
    canvas = member(layers, "canvas")
    return TemplateDetail(
        id=template_id,
        title=text(data.get("name")),
        cover=link(data.get("coverUrl")),
        has_title=layers is None or bool(layers.get(_TITLE)),
        has_persona=layers is None or bool(layers.get(_PERSONA)),
        scene=text(data.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, Mapping) else None,
        layers=() if layers is None else tuple(_layers(layers)),
    )


def _layers(edit_info: Entry) -> list[Layer]:
    """Every layer: what a client may fill are the title and the persona."""
    found = []
    for name, value in edit_info.items():
        if not name.endswith(_LAYER):
            continue
        kind = text(name.removesuffix(_LAYER))
        for one in entries(value if isinstance(value, list) else [value]):
            found.append(
                Layer(
                    id=identifier(one.get("id")),
                    type=kind,
                    name=text(one.get("name")),
                    editable=name in (_TITLE, _PERSONA),
                )
            )
    return found


# --- Avatars and voices ---


def preset_avatars() -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]]:
    """The avatars that everybody may use."""
    return _get(AVATARS, lambda response: _all(response, "virtualmanId", _avatar))


def preset_voices() -> Exchange[CatalogReply[tuple[PresetVoice, ...]]]:
    """The voices that everybody may use."""
    return _get(VOICES, lambda response: _all(response, "speakerId", _voice))


def _all(
    response: MediaResponse, id_name: str, read: Callable[[str, Entry], T]
) -> CatalogReply[tuple[T, ...]]:
    """The entries of a list, or of the `results` in an object."""
    data = _data(response)
    if not isinstance(data, CatalogValue):
        return data
    results = data.value if isinstance(data.value, list) else member(data.value, "results")
    if not isinstance(results, list):
        return UNREADABLE
    with_ids = (
        (identifier(one.get(id_name)) or identifier(one.get("id")), one) for one in entries(results)
    )
    return CatalogValue(tuple(read(one_id, one) for one_id, one in with_ids if one_id is not None))


def _avatar(avatar_id: str, value: Entry) -> PresetAvatar:
    return PresetAvatar(id=avatar_id, name=text(value.get("name")) or avatar_id)


def _voice(voice_id: str, value: Entry) -> PresetVoice:
    return PresetVoice(
        id=voice_id,
        name=text(value.get("name")) or voice_id,
        language=text(value.get("language")),
        preview_url=link(value.get("demoUrl")) or link(value.get("audioUrl")),
    )
