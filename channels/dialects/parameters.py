"""A request's parameters as the call log shows them: how a response was asked for, never what.

Made from what the request's reader has already parsed. Nothing that a person wrote is taken: of
texts, files and schemas only their number; of strings only short ones, as settings are. Which
members there are is each dialect's own table (`<dialect>/parameters.py`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

# Settings are words such as `high`. What is longer may be anything, and is told by its length.
SETTING_CHARACTERS_MAX = 40
NUMBER_BYTES_MAX = 32
NAMES_MAX = 20
NAME_CHARACTERS_MAX = 64

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Typed(msgspec.Struct, gc=False):
    """An object that says of what type it is."""

    type: str | None = None


_TYPED = msgspec.json.Decoder(Typed)


def settings(
    members: Mapping[str, msgspec.Raw], names: Container[str], *, within: str = ""
) -> dict[str, str]:
    """The members of these names that are numbers, booleans or short strings, in their order.

    An object with a `type` is told by it, an array by its length; null is as good as nothing.
    """
    texts: dict[str, str] = {}
    for name, raw in members.items():
        if name in names:
            text = _shown(bytes(raw))
            if text is not None:
                texts[within + name] = text
    return texts


def setting(text: str) -> str:
    """A string as it may be shown."""
    if len(text) <= SETTING_CHARACTERS_MAX and text.isprintable():
        return text
    return f"({len(text)} characters)"


def names_of(names: Sequence[str]) -> str:
    """How many tools there are, and the first of their names."""
    shown = [name for name in names[:NAMES_MAX] if name.isprintable()]
    listed = ", ".join(name[:NAME_CHARACTERS_MAX] for name in shown)
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)}: {listed}{more}"


def counts(**found: int) -> dict[str, str]:
    """What there is any of, as text."""
    return {name: str(count) for name, count in found.items() if count}


def _shown(raw: bytes) -> str | None:
    first = raw[:1]
    try:
        if first == b'"':
            return setting(msgspec.json.decode(raw, type=str))
        if first == b"[":
            return str(len(_ARRAY.decode(raw)))
        if first == b"{":
            kind = _TYPED.decode(raw).type
            return "(object)" if kind is None else setting(kind)
    except msgspec.DecodeError:
        return "(object)"  # its type is no string
    if raw == b"null":
        return None
    return raw.decode() if len(raw) <= NUMBER_BYTES_MAX else "(number)"
