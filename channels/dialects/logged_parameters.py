"""A request's parameters for the call log: its settings, never its content.

Made from what the parser has already decoded. User content is never copied: of texts, files and
schemas only the number; of strings only short ones, as settings are. Each dialect has its own
table of members.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

# Settings are words such as `high`. A longer string may be anything, and is shown as its length.
SETTING_CHARACTERS_MAX = 40
NUMBER_BYTES_MAX = 32
NAMES_MAX = 20
NAME_CHARACTERS_MAX = 64

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Typed(msgspec.Struct, gc=False):
    """An object with a type."""

    type: str | None = None


_TYPED = msgspec.json.Decoder(Typed)


def settings(
    members: Mapping[str, msgspec.Raw], names: Container[str], *, within: str = ""
) -> dict[str, str]:
    """Return the named members that are numbers, booleans or short strings, in order.

    An object with a `type` is shown as that, an array as its length; null counts as missing.
    """
    texts: dict[str, str] = {}
    for name in filter(names.__contains__, members):
        text = str(members[name], "utf-8")
        if text[0] in '"[{n' or len(text) > NUMBER_BYTES_MAX:
            if text == "null":
                continue
            text = _shown(text)
        texts[within + name] = text
    return texts


def setting(text: str) -> str:
    """Return a string in the form for the call log."""
    if len(text) <= SETTING_CHARACTERS_MAX and text.isprintable():
        return text
    return f"({len(text)} characters)"


def names_of(names: Sequence[str]) -> str:
    """Return the number of tools, and their first names."""
    shown = [name for name in names[:NAMES_MAX] if name.isprintable()]
    listed = ", ".join(name[:NAME_CHARACTERS_MAX] for name in shown)
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)}: {listed}{more}"


def counts(**found: int) -> dict[str, str]:
    """Return the positive counts as text."""
    return {name: str(count) for name, count in found.items() if count}


def _shown(text: str) -> str:
    try:
        if text[0] == '"':
            return setting(msgspec.json.decode(text, type=str))
        if text[0] == "[":
            return str(len(_ARRAY.decode(text)))
        if text[0] == "{":
            kind = _TYPED.decode(text).type
            return "(object)" if kind is None else setting(kind)
    except msgspec.DecodeError:
        return "(object)"  # its type is not a string
    return "(number)"
