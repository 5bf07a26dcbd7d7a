"""The bodies that the plain wire sends: a client's own fields, by the client's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from channels.media.requests import (
    AvatarVideo,
    ClipVideo,
    ContentItem,
    GeneralVideo,
    LipSyncVideo,
    MotionVideo,
    Video,
)

S = TypeVar("S", bound=Struct)


def without_nothing(value: Struct, *, leaves_out: Iterable[str] = ()) -> dict[str, Any]:
    """The fields of a request that are not None, by name."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    dropped = set(leaves_out)
    return {name: one for name, one in fields.items() if one is not None and name not in dropped}


def encoded(fields: Mapping[str, Any]) -> bytes:
    """A JSON body."""
    return msgspec.json.encode(fields)


# Of a video, what is the gateway's own.
_OURS = ("asked_duration", "portrait_auth")


def video(request: Video) -> dict[str, Any]:
    """The body of any kind of video."""
    if isinstance(request, GeneralVideo):
        return _general(request)
    if isinstance(request, ClipVideo):
        return _clip(request)
    if isinstance(request, MotionVideo):
        fields = without_nothing(request, leaves_out=_OURS)
        return fields | {"content": _items(request.content)}
    assert isinstance(request, AvatarVideo | LipSyncVideo)
    return without_nothing(request, leaves_out=_OURS)


def _general(request: GeneralVideo) -> dict[str, Any]:
    fields = without_nothing(request, leaves_out=(*_OURS, "others", "content", "registers_images"))
    return fields | dict(request.others) | {"content": _items(request.content)}


def _clip(request: ClipVideo) -> dict[str, Any]:
    fields = without_nothing(request, leaves_out=(*_OURS, "scene", "materials", "bgm"))
    if request.materials:
        fields["materials"] = [without_nothing(one) for one in request.materials]
    if request.bgm is not None:
        fields["bgm"] = without_nothing(request.bgm)
    return fields


def _items(content: Iterable[ContentItem]) -> list[Raw]:
    return [item.object for item in content]
