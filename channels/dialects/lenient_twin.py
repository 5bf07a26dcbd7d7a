"""The lenient twin of a body: what the gateway itself needs of it."""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import fields

from channels.dialects.member import SAME, is_needed, is_struct, is_union, metas, said_of

Body = TypeVar("Body", bound=Struct)


@cache
def twin_of(kind: type[Body]) -> type[Body]:
    """Return a struct that has of each member the type that is needed.

    A member that is not needed is not read: it always has its default. The twin has every member of
    the struct, but is no subclass of it.
    """
    read: list[Any] = []
    unread: dict[str, Any] = {}
    for one in fields(kind):
        said = said_of(one.type)
        if not is_needed(one.type):
            unread[one.name] = UNSET if one.required else one.default
            continue
        stated = _loosened(one.type if said.lenient is SAME else said.lenient)
        if said.lenient is not SAME:
            said_meta = next(meta for meta in metas(one.type) if meta.extra)
            stated = Annotated[stated, said_meta]
        default = None if said.may_lack else one.default
        read.append((one.name, stated, msgspec.field(name=one.encode_name, default=default)))
    config = kind.__struct_config__
    twin = msgspec.defstruct(
        f"Lenient{kind.__name__}",
        read,
        namespace=unread,
        tag_field=config.tag_field,
        tag=config.tag,
        kw_only=True,
        gc=False,
    )
    return cast(type[Body], twin)


def _loosened(stated: Any) -> Any:
    """Return a type with the twins of its structs."""
    if get_origin(stated) is Annotated:
        inner, *said = get_args(stated)
        return Annotated[(_loosened(inner), *said)]
    if is_union(stated):
        return reduce(or_, map(_loosened, get_args(stated)))
    if get_origin(stated) is list:
        return list[_loosened(get_args(stated)[0])]  # type: ignore[misc]
    return twin_of(stated) if is_struct(stated) else stated
