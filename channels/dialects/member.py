"""What a dialect says of a member of its body beside the member's type.

The bodies are structs (`channels/dialects/chat/members.py` first), whose fields are the only
declaration of a member: its type, and in `member` its line in the reference, its words for error
messages, the type that is enough where an upstream of the same protocol judges the rest, and its
canonical field (`channels/translation/model.py`). From these come the words of every path
(`member_words.py`), the lenient twin (`lenient_twin.py`), and both directions of the members that
have the same value in the canonical model (`same_fields.py`). `msgspec.json.schema` has the schema
of a body with its lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, TypeAlias, TypeGuard, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType

# A type as it is declared: a class, or a form of `typing`.
Type: TypeAlias = object

# Annotated to a member that the gateway does not need.
NOT_NEEDED = object()
SAME: Type = object()
_KEY = "member"


@dataclass(frozen=True, slots=True)
class Member:
    """What `member` has said."""

    words: str = ""
    of: str = ""
    each: str = ""
    lenient: Type = SAME
    may_lack: bool = False
    field: str = ""
    spells: tuple[str, ...] = ()
    is_logged: bool = False


_PLAIN = Member()


def member(
    about: str | None = None,
    *,
    words: str = "",
    of: str = "",
    each: str = "",
    examples: list[str] | None = None,
    lenient: Type = SAME,
    may_lack: bool = False,
    field: str = "",
    spells: tuple[str, ...] = (),
    is_logged: bool = False,
) -> Meta:
    """Return what is said of a member, for `Annotated`; `about` is its line in the reference.

    `words` are its allowed values where the type does not say them, `of` is what an array holds,
    `each` the words of an element. `lenient` is the type that is enough; `may_lack`: a required
    member that an upstream may not require. `field` is the canonical field with the same value,
    `spells` are those that become this member in another form. `is_logged`: the call log shows it.
    """
    said = Member(words, of, each, lenient, may_lack, field, spells, is_logged)
    return Meta(description=about, examples=examples, extra={_KEY: said})


def metas(stated: Type) -> list[Meta]:
    """Return what is annotated to a type."""
    said = get_args(stated)[1:] if get_origin(stated) is Annotated else ()
    return [one for one in said if isinstance(one, Meta)]


def said_of(stated: Type) -> Member:
    """Return what is said of a member with this type."""
    found = (one.extra[_KEY] for one in metas(stated) if one.extra and _KEY in one.extra)
    return next(found, _PLAIN)


def is_needed(stated: Type) -> bool:
    """Whether the gateway needs the member with this type."""
    return get_origin(stated) is not Annotated or NOT_NEEDED not in get_args(stated)[1:]


def is_union(stated: Type) -> bool:
    """Whether a type is one of several."""
    return isinstance(stated, UnionType) or get_origin(stated) is Union


def alternatives(stated: Type, bounds: Meta | None = None) -> Iterator[tuple[Type, Meta | None]]:
    """Yield the types of a union, each with its bounds, but for the mark of a missing member."""
    if get_origin(stated) is Annotated:
        own = next((one for one in metas(stated) if one.extra is None), bounds)
        yield from alternatives(get_args(stated)[0], own)
    elif is_union(stated):
        for one in get_args(stated):
            yield from alternatives(one)
    elif stated is not UnsetType:
        yield stated, bounds


def element_of(stated: Type) -> Type | None:
    """Return the type of an array's elements; None if no array is allowed."""
    lists = (one for one, _ in alternatives(stated) if get_origin(one) is list)
    return next((get_args(one)[0] for one in lists), None)


def structs_in(stated: Type) -> list[type[Struct]]:
    """Return the objects that are allowed."""
    return [one for one, _ in alternatives(stated) if is_struct(one)]


def is_struct(stated: Type) -> TypeGuard[type[Struct]]:
    return isinstance(stated, type) and issubclass(stated, Struct)
