"""The items of `content`: texts, and links to images, films and sounds (reference 7.4).

An item is sent unchanged, with unknown members. So duplicate members are refused, because an
upstream may read the other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Raw

from channels.dialects.faults import described
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject
from channels.media.requests import ContentItem, ContentType
from gw.media.fields import refuse, require, url
from gw.media.user_urls import is_embedded_image

ITEMS_MAX = 100
IMAGES_MAX = 10

TYPES: tuple[ContentType, ...] = get_args(ContentType)
_TYPE_WORDS = f"one of {', '.join(TYPES)}"

# An item of `content`, for the reference.
CONTENT_ITEM: Mapping[str, Any] = {
    "type": "object",
    "description": "A text, or a link by its kind.",
    "required": ["type"],
    "properties": {
        "type": {"description": "The kind of the item.", "enum": list(TYPES)},
        "text": {"type": "string", "description": "The text, of an item of the kind `text`."},
        "role": {"type": "string", "description": "What the link is to the film."},
        **{
            kind: {
                "type": "object",
                "description": f"The link, of an item of the kind `{kind}`.",
                "required": ["url"],
                "properties": {
                    "url": {"type": "string", "description": "It is fetched by the upstream."}
                },
            }
            for kind in TYPES
            if kind != "text"
        },
    },
}


def read_items(items: list[Raw], *, embeds_images: bool) -> tuple[ContentItem, ...]:
    """Validate the items; `embeds_images` allows `data:` URLs. Raises InvalidRequest."""
    if len(items) > ITEMS_MAX:
        refuse("content", f"holds more than {ITEMS_MAX} items")
    return tuple(
        _item(f"content[{index}]", raw, embeds_images=embeds_images)
        for index, raw in enumerate(items)
    )


def role_of(item: ContentItem) -> str | None:
    """Return the `role` of a validated item, or None."""
    return msgspec.json.decode(item.object, type=_Role).role


class _Role(msgspec.Struct, gc=False):
    role: str | None = None


def _item(at: str, raw: Raw, *, embeds_images: bool) -> ContentItem:
    members = _object(at, raw)
    kind = _text(f"{at}.type", members, "type", _TYPE_WORDS)
    if kind not in TYPES:
        refuse(f"{at}.type:", f"expected {_TYPE_WORDS}, found {described(kind)}")
    _check_role(at, members)
    if kind == "text":
        return ContentItem(kind, _text(f"{at}.text", members, "text", "a string"), raw)
    inner_at = f"{at}.{kind}"
    if kind not in members.raw:
        require(inner_at, "an object with a url")
    inner = _object(inner_at, members.raw[kind])
    link = _text(f"{inner_at}.url", inner, "url", "an http or https URL")
    if not (kind == "image_url" and embeds_images and is_embedded_image(link)):
        url(f"{inner_at}.url", link)
    return ContentItem(kind, link, raw)


def _check_role(at: str, members: JsonObject) -> None:
    role: Any = _value(members, "role")
    if role is not None and not isinstance(role, str):
        refuse(f"{at}.role:", f"expected a string, found {described(role)}")


def _object(at: str, raw: Raw) -> JsonObject:
    try:
        return JsonObject.parse(bytes(raw))
    except InvalidJson as error:
        value = _decoded(raw)
        if not isinstance(value, dict):
            refuse(f"{at}:", f"expected an object, found {described(value)}")
        name = f"{at}.{error.param}" if error.param else at
        raise InvalidRequest(f"{at}: {error.message}", name) from None


def _text(at: str, members: JsonObject, name: str, words: str) -> str:
    value = _value(members, name)
    if value is None:
        require(at, words)
    if not isinstance(value, str):
        refuse(f"{at}:", f"expected {words}, found {described(value)}")
    return value


def _value(members: JsonObject, name: str) -> Any:
    raw = members.raw.get(name)
    return None if raw is None else _decoded(raw)


def _decoded(raw: Raw) -> Any:
    """Return the value of JSON; an undecodable one becomes another value that is no string."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a number out of range
        return 0
    except RecursionError:
        return []
