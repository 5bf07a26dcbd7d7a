"""What a command says: one record for programs, tables for people (contract §1: `--json`).

Commands build an `Result` and `main.py` prints it; nothing else in a command writes to stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

GAP = "  "


@dataclass(frozen=True, slots=True)
class Result:
    """What a command has to say, twice, and the exit code that goes with it."""

    record: Mapping[str, Any]
    text: str
    exit_code: int = 0


def print_result(result: Result, *, as_json: bool) -> None:
    """Print it on stdout: the record as one JSON object, or the text."""
    print_line(to_json(result.record) if as_json else result.text)


def print_line(text: str) -> None:
    """Print on stdout, also where the terminal's encoding lacks a character."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def to_json(record: Mapping[str, Any]) -> str:
    """Write a record on one line, in ASCII."""
    return json.dumps(record, default=_plain)


def rfc3339(instant: datetime | None) -> str | None:
    """Write an instant in UTC with a Z; None stays None."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def sheet(record: Mapping[str, Any]) -> str:
    """Lay one record out with a line for each of its fields."""
    return _aligned([name, shown(value)] for name, value in record.items())


def table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Lay records out below a header, some of their fields as columns."""
    rows = [[shown(record[column]) for column in columns] for record in records]
    return _aligned([list(columns), *rows])


def shown(value: Any) -> str:
    """One value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _aligned(rows: Iterable[Sequence[str]]) -> str:
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain(value: Any) -> Any:
    """What the database gives and JSON does not know."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, datetime):
        return rfc3339(value)
    raise TypeError(f"{value!r} has no place in an answer")
