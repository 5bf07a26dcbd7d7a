"""The bodies of the plain wire: a client's own fields, by the client's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from channels.media import requests

S = TypeVar("S", bound=Struct)


def without_nothing(value: Struct, *, leaves_out: Iterable[str] = ()) -> dict[str, object]:
    """Return the fields of a request that are not None, by name."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    dropped = set(leaves_out)
    return {name: one for name, one in fields.items() if one is not None and name not in dropped}


def encoded(fields: Mapping[str, object]) -> bytes:
    """Encode a JSON body."""
    return msgspec.json.encode(fields)


# The fields of a video that only the gateway uses.
_OURS = ("asked_duration", "portrait_auth")


def video_body(request: requests.Video) -> dict[str, object]:
    """Return the body for any kind of video."""
    if isinstance(request, requests.GeneralVideo):
        return _general(request)
    if isinstance(request, requests.ClipVideo):
        return _clip(request)
    if isinstance(request, requests.MotionVideo):
        fields = without_nothing(request, leaves_out=_OURS)
        return fields | {"content": _items(request.content)}
    assert isinstance(request, requests.AvatarVideo | requests.LipSyncVideo)
    return without_nothing(request, leaves_out=_OURS)


def _general(request: requests.GeneralVideo) -> dict[str, object]:
    fields = without_nothing(request, leaves_out=(*_OURS, "others", "content", "registers_images"))
    return fields | dict(request.others) | {"content": _items(request.content)}


def _clip(request: requests.ClipVideo) -> dict[str, object]:
    fields = without_nothing(request, leaves_out=(*_OURS, "scene", "materials", "bgm"))
    if request.materials:
        fields["materials"] = [without_nothing(one) for one in request.materials]
    if request.bgm is not None:
        fields["bgm"] = without_nothing(request.bgm)
    return fields


def _items(content: Iterable[requests.ContentItem]) -> list[Raw]:
    return [item.object for item in content]
