"""What is wrong with a configuration: each fault with its location, all of them reported at once.

A `FaultReport` gathers faults while a file is read, a `Location` is a position in that file which
can be blamed. `render` is the table a person reads, `fault_records` the same for `--json`. What is
no fault, and hardly meant, is a `Caution`: the configuration is taken all the same.
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
    """One thing that is wrong. `path` is empty when the file as a whole is meant."""

    file: str
    path: str  # such as channels[0].protocols[1]
    found: str
    allowed: str
    hint: str = ""
    line: int | None = None
    column: int | None = None

    @property
    def where(self) -> str:
        """File, line and column as editors and compilers write them."""
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        location = f"{self.where} {self.path}".rstrip()
        return f"{location}: found {self.found}, allowed {self.allowed}{hint}"


@dataclass(frozen=True, slots=True)
class Caution:
    """One thing that is allowed and may not be what was meant. Shows nothing secret."""

    file: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{where} {self.path}: {self.message}"


class ConfigFaults(Exception):
    """The configuration is refused; `faults` says everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        assert faults
        self.faults = tuple(faults)
        super().__init__(render(self.faults))


@dataclass(slots=True)
class FaultReport:
    """The faults of one file, gathered while it is read."""

    file: str
    faults: list[Fault] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)

    def raise_if_any(self) -> None:
        """Raise ConfigFaults, in the order of the file, when anything was blamed."""
        if self.faults:
            raise ConfigFaults(sorted(self.faults, key=_in_file_order))

    def top(self) -> Location:
        """The file as a whole."""
        return Location(self, "", None)


@dataclass(frozen=True, slots=True)
class Location:
    """A position that can be blamed: the path of keys to it and its mark in the file."""

    report: FaultReport = field(repr=False)
    path: str
    mark: Mark | None

    def key(self, name: str, mark: Mark | None = None) -> Location:
        """The member `name` of the mapping here."""
        if not _PLAIN_KEY.fullmatch(name):
            return Location(self.report, f"{self.path}[{json.dumps(name)}]", mark or self.mark)
        path = f"{self.path}.{name}" if self.path else name
        return Location(self.report, path, mark or self.mark)

    def item(self, index: int, mark: Mark | None = None) -> Location:
        """The item at `index`, from 0, of the list here."""
        return Location(self.report, f"{self.path}[{index}]", mark or self.mark)

    def blame(self, *, found: str, allowed: str, hint: str = "") -> None:
        """Report a fault here; reading goes on, so that the others are found too."""
        line, column = (self.mark.line, self.mark.column) if self.mark else (None, None)
        self.report.faults.append(
            Fault(self.report.file, self.path, found, allowed, hint, line, column)
        )

    def caution(self, message: str) -> None:
        """Report something here that is allowed."""
        line, column = (self.mark.line, self.mark.column) if self.mark else (None, None)
        self.report.cautions.append(Caution(self.report.file, self.path, message, line, column))


def render(faults: Sequence[Fault]) -> str:
    """Lay faults out for a person: file, line and column, path, then what was found and allowed."""
    blocks = [_block(fault) for fault in faults]
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([*blocks, count])


def caution_records(cautions: Sequence[Caution]) -> list[dict[str, str | int | None]]:
    """Cautions as plain dicts for JSON: file, path, message, line, column."""
    return [asdict(caution) for caution in cautions]


def fault_records(faults: Sequence[Fault]) -> list[dict[str, str | int | None]]:
    """The faults as plain dicts for JSON: file, path, found, allowed, hint, line, column."""
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
