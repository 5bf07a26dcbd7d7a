"""Readers of single values: they check a scalar and return a Python value, or raise InvalidValue.

Each function here makes a reader; a key is declared with one (`keys.py`). Readers of addresses
are in `addresses.py`, those of mappings and lists in `mappings.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from pathlib import Path
from typing import TypeAlias, TypeVar

from gw.config.faults import Location
from gw.config.nodes import Node, Scalar, described
from gw.config.suggestions import suggestion

T = TypeVar("T")
S = TypeVar("S", bound=str)
Reader: TypeAlias = Callable[[Node, Location], T]

MAX_TEXT_CHARACTERS = 4096

# YAML 1.1 reads 010 as 8, 1:30 as 90 and 1e3 as text: only plain decimal digits are accepted.
_WHOLE = re.compile(r"[-+]?(0|[1-9](_?[0-9]){0,17})", re.ASCII)
_NUMBER = re.compile(r"(0|[1-9]\d{0,20})(\.\d{1,30})?([eE][+-]?\d{1,3})?", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,11})(\.\d{1,12})?", re.ASCII)
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NAME = re.compile(r"[^\s,]{1,200}")


class InvalidValue(Exception):
    """A value is invalid for its key. Caught by the reader of the enclosing list or mapping."""

    def __init__(self, *, found: str, allowed: str, hint: str = "") -> None:
        super().__init__(f"{found}, allowed is {allowed}")
        self.found = found
        self.allowed = allowed
        self.hint = hint


def text(
    allowed: str = "text",
    *,
    may_be_empty: bool = False,
    secret: bool = False,
    least: int = 0,
    placeholders: frozenset[str] = frozenset(),
) -> Reader[str]:
    """Read printable text, empty or at least `least` characters. A `secret` is never reported.

    `placeholders` are texts of examples that the operator has to replace.
    """

    def read(node: Node, at: Location) -> str:
        if may_be_empty and isinstance(node, Scalar) and node.kind == "null":
            return ""
        value = written_text(node, allowed, secret=secret)
        if not value and not may_be_empty:
            raise InvalidValue(found="an empty text", allowed=allowed)
        if value in placeholders:
            raise InvalidValue(found="the placeholder of an example", allowed=allowed)
        if 0 < len(value) < least:
            raise InvalidValue(
                found=f"text of {len(value)} characters (not shown)", allowed=allowed
            )
        if len(value) > MAX_TEXT_CHARACTERS:
            raise InvalidValue(
                found=f"text of {len(value)} characters",
                allowed=f"at most {MAX_TEXT_CHARACTERS}",
            )
        if not value.isprintable():
            raise InvalidValue(
                found=described(node, hidden=secret),
                allowed=f"{allowed}, printable and in one line",
                hint="a line break or a control character is in it",
            )
        return value

    return read


def header_text(allowed: str, *, may_be_empty: bool = False, secret: bool = False) -> Reader[str]:
    """Read text that can be sent in an HTTP header: visible ASCII."""
    read_text = text(allowed, may_be_empty=may_be_empty, secret=secret)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if not value.isascii() or " " in value:
            raise InvalidValue(
                found=described(node, hidden=secret),
                allowed=f"{allowed}, ASCII without spaces",
            )
        return value

    return read


def name_reader(what: str) -> Reader[str]:
    """Read an id: up to 200 printable characters without spaces and commas."""
    # A comma separates ids in the filters of the logs API, so no id may contain one.
    allowed = f"{what}: 1 to 200 characters without spaces and commas"
    read_text = text(allowed)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if not _NAME.fullmatch(value):
            raise InvalidValue(found=described(node), allowed=allowed)
        return value

    return read


def folder() -> Reader[Path]:
    """Read the path of a folder."""
    read_path = _path("a folder", may_be_empty=False)
    return lambda node, at: Path(read_path(node, at))


def file() -> Reader[str]:
    """Read the path of a file, or an empty text for none."""
    return _path("a file", may_be_empty=True)


def _path(what: str, *, may_be_empty: bool) -> Reader[str]:
    read_text = text(what, may_be_empty=may_be_empty)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if value.startswith("~"):
            # Used literally, it would be a file of that name beside the configuration.
            raise InvalidValue(
                found=described(node), allowed=f"{what}, without ~", hint="write ${HOME} for it"
            )
        return value

    return read


def choice(options: Sequence[S], what: str = "one of") -> Reader[S]:
    """Read one of `options`, exactly as written."""
    allowed = f"{what} {', '.join(options)}"

    def read(node: Node, at: Location) -> S:
        value = written_text(node, allowed)
        for option in options:
            if option == value:
                return option
        raise InvalidValue(found=described(node), allowed=allowed, hint=suggestion(value, options))

    return read


def flag() -> Reader[bool]:
    """Read true or false."""

    def read(node: Node, at: Location) -> bool:
        if isinstance(node, Scalar) and (node.kind == "bool" or node.variables):
            value = node.text.lower()
            if value in _TRUE | _FALSE:
                return value in _TRUE
        is_quoted = isinstance(node, Scalar) and node.text.lower() in _TRUE | _FALSE
        hint = "write it without quotes" if is_quoted else ""
        raise InvalidValue(found=described(node), allowed="true or false", hint=hint)

    return read


def whole(least: int, most: int) -> Reader[int]:
    """Read an integer in an inclusive range."""
    allowed = f"a whole number from {least} to {most}"

    def read(node: Node, at: Location) -> int:
        digits = _written_number(node, allowed)
        if not _WHOLE.fullmatch(digits) or not least <= int(digits) <= most:
            raise InvalidValue(found=described(node), allowed=allowed)
        return int(digits)

    return read


def decimal(
    what: str, *, most: int, least: int = 0, above_zero: bool = False, quoted: bool = False
) -> Reader[Decimal]:
    """Read a plain decimal exactly as written, from `least` (or above it) to `most`.

    Without an exponent and with at most 12 decimals; also as text if `quoted`.
    """
    lowest = f"above {least} and up" if above_zero else f"from {least}"
    allowed = f"{what}: a plain decimal {lowest} to {most}"

    def read(node: Node, at: Location) -> Decimal:
        if quoted and isinstance(node, Scalar) and node.kind == "text":
            digits = node.text
        else:
            digits = _written_number(node, allowed)
        if not _DECIMAL.fullmatch(digits):
            raise InvalidValue(
                found=described(node),
                allowed=allowed,
                hint="digits, at most 12 of them after the point, no sign, no exponent",
            )
        value = Decimal(digits)
        if not least <= value <= most or (above_zero and value == least):
            raise InvalidValue(found=described(node), allowed=allowed)
        return value

    return read


def seconds(*, most: int = 86_400, above_zero: bool = True) -> Reader[float]:
    """Read a duration in seconds."""
    read_decimal = decimal("seconds", most=most, above_zero=above_zero)
    return lambda node, at: float(read_decimal(node, at))


def days(*, most: int = 3650) -> Reader[float]:
    """Read a duration in days, which may have a fraction, or be as small as `1e-4`."""
    allowed = f"days: a number above 0 and up to {most}"

    def read(node: Node, at: Location) -> float:
        digits = _written_number(node, allowed)
        if not _NUMBER.fullmatch(digits) or not 0 < float(digits) <= most:
            raise InvalidValue(found=described(node), allowed=allowed)
        return float(digits)

    return read


def binary_size(unit: str, unit_bytes: int, *, most: int, above_zero: bool) -> Reader[int]:
    """Read a size in `unit` and return it in bytes, rounded up."""
    read_decimal = decimal(unit, most=most, above_zero=above_zero)
    return lambda node, at: ceil(read_decimal(node, at) * unit_bytes)


def optional(read_value: Reader[T]) -> Reader[T | None]:
    """Read a value, or return None for an empty value and null."""

    def read(node: Node, at: Location) -> T | None:
        if isinstance(node, Scalar) and node.is_nothing:
            return None
        return read_value(node, at)

    return read


def or_empty(read_value: Reader[str]) -> Reader[str]:
    """Like `optional`, with an empty text for nothing."""
    read_optional = optional(read_value)
    return lambda node, at: read_optional(node, at) or ""


def or_blank(read_value: Reader[T]) -> Reader[T | None]:
    """Like `optional`, also for an empty text."""
    read_optional = optional(read_value)

    def read(node: Node, at: Location) -> T | None:
        if isinstance(node, Scalar) and not node.text:
            return None
        return read_optional(node, at)

    return read


def written_text(node: Node, allowed: str, *, secret: bool = False) -> str:
    """Return the text of a scalar; refuse one that YAML reads as a number, boolean or null."""
    if not isinstance(node, Scalar):
        raise InvalidValue(found=described(node, hidden=secret), allowed=allowed)
    if node.variables or node.kind in ("text", "date"):
        return node.text
    hint = "put quotes around it" if node.kind != "null" else ""
    raise InvalidValue(found=described(node, hidden=secret), allowed=allowed, hint=hint)


def _written_number(node: Node, allowed: str) -> str:
    if isinstance(node, Scalar):
        if node.variables or node.kind in ("whole", "number"):
            return node.text
        if node.kind == "text" and _DECIMAL.fullmatch(node.text):
            raise InvalidValue(
                found=described(node), allowed=allowed, hint="write it without quotes"
            )
    raise InvalidValue(found=described(node), allowed=allowed)
