"""The faults of a configuration: each with its location, all of them reported together.

A `FaultReport` collects faults while a file is read, a `Location` is a position in that file to
which a fault can be attached. `render` returns a table for terminals, `fault_records` the same
for `--json`. A `Caution` is about a valid setting that is probably a mistake: the configuration
is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

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
