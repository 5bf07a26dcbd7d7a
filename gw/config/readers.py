"""Readers of single values: they check a scalar and return a Python value, or raise InvalidValue.

Each function here makes a reader; `schema.py` lists the reader of each key. Readers of addresses,
URLs, mappings and lists are in `values.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from math import ceil
from typing import Literal, TypeAlias, TypeVar

# The faults of a configuration: each with its location, all of them reported together.
#
# A `FaultReport` collects faults while a file is read, a `Location` is a position in that file to
# which a fault can be attached. `render` returns a table for terminals, `fault_records` the same
# for `--json`. A `Caution` is about a valid setting that is probably a mistake: the configuration
# is accepted.

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a text file; lines and columns count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `path` is empty when it concerns the whole file."""

    file: str
    path: str  # such as channels[0].protocols[1]
    found: str
    allowed: str
    hint: str = ""
    line: int | None = None
    column: int | None = None

    @property
    def where(self) -> str:
        """File, line and column in the form of editors and compilers."""
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        location = f"{self.where} {self.path}".rstrip()
        return f"{location}: found {self.found}, allowed {self.allowed}{hint}"


@dataclass(frozen=True, slots=True)
class Caution:
    """A setting that is allowed and probably a mistake. Contains no secrets."""

    file: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{where} {self.path}: {self.message}"


class ConfigFaults(Exception):
    """The configuration is refused; `faults` are all of its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        assert faults
        self.faults = tuple(faults)
        super().__init__(render(self.faults))


@dataclass(slots=True)
class FaultReport:
    """The faults of one file, collected while it is read."""

    file: str
    faults: list[Fault] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)

    def raise_if_any(self) -> None:
        """Raise ConfigFaults, in the order of the file, if there is any fault."""
        if self.faults:
            raise ConfigFaults(sorted(self.faults, key=_in_file_order))

    def top(self) -> Location:
        """Return the location of the whole file."""
        return Location(self, "", None)


@dataclass(frozen=True, slots=True)
class Location:
    """A location for faults: the path of keys to it and its mark in the file."""

    report: FaultReport = field(repr=False)
    path: str
    mark: Mark | None

    def key(self, name: str, mark: Mark | None = None) -> Location:
        """Return the location of the member `name` of this mapping."""
        if not _PLAIN_KEY.fullmatch(name):
            return Location(self.report, f"{self.path}[{json.dumps(name)}]", mark or self.mark)
        path = f"{self.path}.{name}" if self.path else name
        return Location(self.report, path, mark or self.mark)

    def item(self, index: int, mark: Mark | None = None) -> Location:
        """Return the location of the item at `index`, from 0, of this list."""
        return Location(self.report, f"{self.path}[{index}]", mark or self.mark)

    def blame(self, *, found: str, allowed: str, hint: str = "") -> None:
        """Report a fault here; reading continues, to find further ones."""
        line, column = (self.mark.line, self.mark.column) if self.mark else (None, None)
        self.report.faults.append(
            Fault(self.report.file, self.path, found, allowed, hint, line, column)
        )

    def caution(self, message: str) -> None:
        """Report a caution here."""
        line, column = (self.mark.line, self.mark.column) if self.mark else (None, None)
        self.report.cautions.append(Caution(self.report.file, self.path, message, line, column))


def render(faults: Sequence[Fault]) -> str:
    """Render faults for a terminal: file, line and column, path, text found, values allowed."""
    blocks = [_block(fault) for fault in faults]
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([*blocks, count])


def caution_records(cautions: Sequence[Caution]) -> list[dict[str, str | int | None]]:
    """Return cautions as dicts for JSON: file, path, message, line, column."""
    return [asdict(caution) for caution in cautions]


def fault_records(faults: Sequence[Fault]) -> list[dict[str, str | int | None]]:
    """Return faults as dicts for JSON: file, path, found, allowed, hint, line, column."""
    return [asdict(fault) for fault in faults]


def _block(fault: Fault) -> str:
    lines = [
        f"{fault.where}  {fault.path}".rstrip(),
        f"    found    {fault.found}",
        f"    allowed  {fault.allowed}",
    ]
    if fault.hint:
        lines.append(f"    hint     {fault.hint}")
    return "\n".join(lines)


def _in_file_order(fault: Fault) -> tuple[int, int, str]:
    return (fault.line or 0, fault.column or 0, fault.path)


# The tree of a YAML file: texts, positions, and values taken from the environment.
#
# A scalar keeps its text, so that a price such as 1.10 becomes an exact Decimal. `yaml_source.py`
# makes the tree; `values.py` and the readers below read it.

# The kinds of YAML's scalars. A date has no quotes and a form like 2023-06-01.
ScalarKind: TypeAlias = Literal["text", "whole", "number", "bool", "null", "date"]

MAX_SHOWN_CHARACTERS = 80

_SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASS|PWD|CREDENTIAL|DSN|DATABASE", re.IGNORECASE)
_USER_INFORMATION = re.compile(r"//[^/@\s]*@")
_QUERY_VALUE = re.compile(r"([?&][^=&\s]*=)[^&\s]*")
_SECRET_TEXT = re.compile(r"\b(sk-|pk-|AIza|Bearer\s+)\S{8,}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value.

    `variables` are the environment variables in its text, `taken` their values, without defaults of
    the file.
    """

    text: str
    kind: ScalarKind
    mark: Mark
    variables: tuple[str, ...] = ()
    taken: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_nothing(self) -> bool:
        """Whether it is null, or a variable with an empty value."""
        return self.kind == "null" or (bool(self.variables) and self.text in ("", "null", "~"))


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a mapping, with the position of its key."""

    value: Node
    mark: Mark


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with text keys."""

    entries: Mapping[str, Entry]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A node whose fault is already reported; its readers report no further one."""

    mark: Mark


Node: TypeAlias = Scalar | Items | Table | Unreadable


def described(node: Node, *, hidden: bool = False) -> str:
    """Describe a node in short. `hidden` keeps the text of a secret out of the report."""
    if isinstance(node, Table):
        if hidden or not node.entries:
            return "a mapping"
        return f"a mapping with {_enumerated(list(node.entries))}"
    if isinstance(node, Items):
        return f"a list of {len(node.items)}" if node.items else "an empty list"
    if isinstance(node, Unreadable):
        return "something unreadable"
    taken = "".join(f" from ${{{name}}}" for name in node.variables)
    if hidden or any(_SECRET_NAME.search(name) for name in node.variables):
        return f"{_KIND_NAMES[node.kind]}{taken} (not shown)"
    if node.kind == "null":
        return "nothing"
    return f"{_shown(node.text, quoted=node.kind == 'text')}{taken}"


_KIND_NAMES: Mapping[ScalarKind, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "null": "nothing",
    "date": "a date",
}


def quoted(text: str) -> str:
    """Quote a text for a fault: one line, printable, truncated, credentials redacted."""
    return _shown(text, quoted=True)


def _shown(text: str, *, quoted: bool) -> str:
    text = _USER_INFORMATION.sub("//…@", text)
    text = _QUERY_VALUE.sub(r"\1…", text)
    text = _SECRET_TEXT.sub(r"\1…", text)
    if len(text) > MAX_SHOWN_CHARACTERS:
        text = text[: MAX_SHOWN_CHARACTERS - 1] + "…"
    if quoted:
        text = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\u{ord(character):04x}" for character in text
    )


def _enumerated(names: list[str]) -> str:
    shown = ", ".join(_shown(name, quoted=False) for name in names[:4])
    return f"{shown}, …" if len(names) > 4 else shown


# Suggestions for misspelled keys and values, for the hint of a fault.


def suggestion(word: str, options: Collection[str]) -> str:
    """Return a suggestion for a misspelled word; empty when nothing is close."""
    guess = closest(word, options)
    return f"did you mean {guess}?" if guess else ""


def closest(word: str, options: Collection[str]) -> str | None:
    """Return the option closest to a misspelled word, or None."""
    folded = {option.lower().replace("-", "_"): option for option in options}
    wanted = word.strip().lower().replace("-", "_")
    matches = get_close_matches(wanted, folded, n=1)
    if not matches and len(wanted) > 2:
        # chat_completions has a low similarity to chat, and is a likely mistake for it.
        matches = [
            option for option in folded if wanted.startswith(option) or option.startswith(wanted)
        ]
    return folded[matches[0]] if matches else None


T = TypeVar("T")
Reader: TypeAlias = Callable[[Node, Location], T]

MAX_TEXT_CHARACTERS = 4096

# YAML 1.1 reads 010 as 8, 1:30 as 90 and 1e3 as text: only plain decimal digits are accepted.
_WHOLE = re.compile(r"[-+]?(0|[1-9](_?[0-9]){0,17})", re.ASCII)
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


def folder() -> Reader[str]:
    """Read the path of a folder."""
    return _path("a folder", may_be_empty=False)


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


def choice(options: Sequence[str], what: str = "one of") -> Reader[str]:
    """Read one of `options`, exactly as written."""
    allowed = f"{what} {', '.join(options)}"

    def read(node: Node, at: Location) -> str:
        value = written_text(node, allowed)
        if value not in options:
            raise InvalidValue(
                found=described(node), allowed=allowed, hint=suggestion(value, options)
            )
        return value

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


def binary_size(unit: str, unit_bytes: int, *, most: int, above_zero: bool) -> Reader[int]:
    """Read a size in `unit` and return it in bytes, rounded up."""
    read_decimal = decimal(unit, most=most, above_zero=above_zero)

    def read(node: Node, at: Location) -> int:
        return ceil(read_decimal(node, at) * unit_bytes)

    return read


def optional(read_value: Reader[T]) -> Reader[T | None]:
    """Read a value, or return None for an empty value and null."""

    def read(node: Node, at: Location) -> T | None:
        if isinstance(node, Scalar) and node.is_nothing:
            return None
        return read_value(node, at)

    return read


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
