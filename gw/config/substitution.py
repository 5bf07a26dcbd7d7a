"""Environment variables in values: `${NAME}`, `${NAME:-text}`, and `$${` for a literal `${`.

The substitution applies to the text of one scalar after YAML is parsed, so a variable can have
any value and never changes the structure of the file (running.md: Configuration). A `$` without `{`
after it is literal. Braces and commas have another meaning to YAML inside `{ }`: `shielded`
replaces those of a substitution before parsing, one character each so that positions stay the same,
and `unshielded` reverses it.
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

# Without quotes, which could end a quoted scalar.
_SUBSTITUTION = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}\"'\n]*)?\}", re.ASCII)
# Code points of a private plane: letters to YAML, and absent from files.
_SHIELD = {ord(mark): 0xF0000 + index for index, mark in enumerate("{}[],:#")}
_UNSHIELD = {shield: mark for mark, shield in _SHIELD.items()}


class SubstitutionFault(Exception):
    """An invalid substitution."""

    def __init__(self, found: str, allowed: str, hint: str) -> None:
        super().__init__(found)
        self.found = found
        self.allowed = allowed
        self.hint = hint


def shielded(text: str) -> str:
    """Replace the characters inside `${…}` that have a meaning in YAML."""
    if any(chr(shield) in text for shield in _UNSHIELD):
        return text
    return _SUBSTITUTION.sub(lambda piece: piece[0].translate(_SHIELD), text)


def unshielded(text: str) -> str:
    """Reverse `shielded`."""
    return text.translate(_UNSHIELD)


class Substituted(NamedTuple):
    """A text after substitution, the variables' names in order, and their values if not empty."""

    text: str
    names: tuple[str, ...]
    values: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Substitute the variables.

    A set but empty variable counts as unset if there is a default text, as in a shell. Raises
    SubstitutionFault for the first one that is unset or malformed.
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
        # The operating system passes bytes that are not UTF-8 as lone surrogates.
        raise SubstitutionFault(f"${{{name}}}, whose bytes are not UTF-8", "text", "") from None
    return value
