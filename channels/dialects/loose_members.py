"""Objects whose members have undocumented types, as structs: what can be read of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from channels.dialects.token_counts import count_of
from channels.json.lenient import raw_of

_Kind = TypeVar("_Kind", bound=Struct)


def loosely(kind: type[_Kind], value: object) -> _Kind | None:
    """Return the members of an object that have the types of the struct; None for another value.

    The rest keeps its defaults: delivered text is still counted and shown.
    """
    if not isinstance(value, dict):
        return None
    members = {name: read(value.get(on_wire)) for name, on_wire, read in _readers(kind)}
    return kind(**{name: found for name, found in members.items() if found is not None})


@cache
def _readers(kind: type[Struct]) -> tuple[tuple[str, str, Callable[[object], object]], ...]:
    return tuple((one.name, one.encode_name, _reader(one.type)) for one in fields(kind))


def _reader(stated: Any) -> Callable[[object], object]:
    is_optional = isinstance(stated, UnionType) or get_origin(stated) is Union  # `kind | None`
    kind = get_args(stated)[0] if is_optional else stated
    if get_origin(kind) is Annotated:  # `Tokens` is the only one
        return count_of
    if kind is msgspec.Raw:
        return raw_of
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        return lambda found: (
            [loosely(of, one) for one in found if isinstance(one, dict)]
            if isinstance(found, list)
            else None
        )
    if issubclass(kind, Struct):
        return partial(loosely, kind)
    return lambda found: found if type(found) is kind else None
