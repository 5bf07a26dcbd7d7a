"""`${NAME}` and `${NAME:-text}` inside a value, and `$${` for a literal `${` (contract §2).

Works on the text of one scalar after YAML has been read, so that a variable can hold anything and
never changes the structure of the file. A `$` that is not followed by `{` stands for itself.
Braces and commas mean something else to YAML inside `{ }`: `shielded` disguises those of a
substitution before parsing, character by character so that positions stay, `unshielded` undoes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gw.config.nodes import quoted

_PIECE = re.compile(
    r"(?P<escape>\$\$\{)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|(?P<broken>\$\{[^}]*\}?)",
    re.ASCII | re.DOTALL,
)

# Without quotes in the text: one would have to be followed over the end of a quoted scalar.
_SUBSTITUTION = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}\"'\n]*)?\}", re.ASCII)
# Code points of a private plane: YAML takes them as ordinary letters, and files do not hold them.
_SHIELD = {ord(mark): 0xF0000 + index for index, mark in enumerate("{}[],:#")}
_UNSHIELD = {shield: mark for mark, shield in _SHIELD.items()}


class SubstitutionFault(Exception):
    """A substitution that cannot be done."""

    def __init__(self, found: str, allowed: str, hint: str) -> None:
        super().__init__(found)
        self.found = found
        self.allowed = allowed
        self.hint = hint


def shielded(text: str) -> str:
    """Disguise what YAML would take for its own inside `${…}`."""
    if any(chr(shield) in text for shield in _UNSHIELD):
        return text
    return _SUBSTITUTION.sub(lambda piece: piece[0].translate(_SHIELD), text)


def unshielded(text: str) -> str:
    """Undo `shielded`."""
    return text.translate(_UNSHIELD)


class Substituted(NamedTuple):
    """A text with its variables filled in, their names in order, and what they were set to."""

    text: str
    names: tuple[str, ...]
    values: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Fill in the variables.

    A variable that is set but empty counts as its default text where there is one, as in a shell.
    Raises SubstitutionFault for the first one that is unset or not well formed.
    """
    names: list[str] = []

    def fill(piece: re.Match[str]) -> str:
        if piece["escape"]:
            return "${"
        if piece["broken"]:
            raise SubstitutionFault(
                f"the substitution {quoted(piece['broken'])}",
                "${NAME} or ${NAME:-text}, NAME of letters, digits and _",
                "write $${ for a literal ${",
            )
        names.append(piece["name"])
        return _value(piece["name"], piece["default"], environ)

    filled = _PIECE.sub(fill, text)
    values = tuple(environ[name] for name in names if environ.get(name))
    return Substituted(filled, tuple(names), values)


def _value(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if default is not None and not value:
        return default
    if value is None:
        raise SubstitutionFault(
            f"${{{name}}}, which is not set",
            "a variable that is set, or ${NAME:-text}",
            f"set {name} in the environment, or write ${{{name}:-}} if it may be empty",
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        # The operating system hands over bytes that are no text as lone surrogates.
        raise SubstitutionFault(f"${{{name}}}, whose bytes are not UTF-8", "text", "") from None
    return value
