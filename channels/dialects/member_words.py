"""The allowed values of a body's members in words, for error messages.

They follow from the types, and from what `member` says where a type does not say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields

from channels.dialects.member import (
    Type,
    alternatives,
    element_of,
    is_struct,
    metas,
    said_of,
    structs_in,
)


def words_of(*bodies: type[Struct]) -> dict[str, str]:
    """Return the words of every member by its path; `[]` is any index. The first body prevails."""
    words: dict[str, str] = {}
    for body in bodies:
        _add_members(body, "", words)
    return words


def _add_members(kind: type[Struct], within: str, words: dict[str, str]) -> None:
    for one in fields(kind):
        _add_value(one.type, within + one.encode_name, words, may_be_null=one.required)


def _add_value(stated: Type, path: str, words: dict[str, str], *, may_be_null: bool) -> None:
    said = said_of(stated)
    if text := said.words or _in_words(stated, said.of, may_be_null=may_be_null):
        words.setdefault(path, text)
    for kind in structs_in(stated):
        _add_members(kind, f"{path}.", words)
    element = element_of(stated)
    if element is not None:
        _add_element(element, f"{path}[]", said.each, words)


def _add_element(stated: Type, path: str, each: str, words: dict[str, str]) -> None:
    if text := each or _in_words(stated, "", may_be_null=False):
        words.setdefault(path, text)
    kinds = structs_in(stated)
    for kind in kinds:
        _add_members(kind, f"{path}.", words)
    tags = [kind.__struct_config__.tag for kind in kinds]
    tag_field = kinds[0].__struct_config__.tag_field if kinds else None
    if tag_field is not None:
        words.setdefault(f"{path}.{tag_field}", f"one of {', '.join(map(str, tags))}")


def _in_words(stated: Type, of: str, *, may_be_null: bool) -> str:
    found = [_one_in_words(kind, bounds, of) for kind, bounds in alternatives(stated)]
    kinds = [one for one in dict.fromkeys(found) if one and (may_be_null or one != "null")]
    text = _listed(kinds, "or")
    examples = next((one.examples for one in metas(stated) if one.examples), None)
    return f"{text} such as {_listed(examples, 'or')}" if examples else text


def _one_in_words(kind: Type, bounds: Meta | None, of: str) -> str:
    if kind is str:
        return _text_in_words(bounds)
    if kind in (int, float):
        noun = "an integer" if kind is int else "a number"
        return noun if bounds is None else f"{noun} from {bounds.ge} to {bounds.le}"
    if kind is bool:
        return "a boolean"
    if kind is type(None):
        return "null"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is list:
        first = "a non-empty array" if bounds is not None and bounds.min_length else "an array"
        return f"{first} of {of or 'strings'}"
    return _object_in_words(kind) if is_struct(kind) else ""  # a value of any type


def _text_in_words(bounds: Meta | None) -> str:
    if bounds is None:
        return "a string"
    if bounds.max_length is None:
        return "a non-empty string"
    return f"a string of {bounds.min_length} to {bounds.max_length} characters"


def _object_in_words(kind: type[Struct]) -> str:
    """Return the words of an object: the members that it must have."""
    tag = kind.__struct_config__.tag_field
    names = [one.encode_name for one in fields(kind) if one.required]
    needed = names if tag is None else [tag, *names]
    return f"an object with {_listed(needed, 'and')}" if needed else "an object"


def _listed(words: Sequence[str], last: str) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
