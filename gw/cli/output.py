"""The output of a command: one record for programs, tables for people (running.md: Commands).

Commands return a `Result`, which `main.py` prints; nothing else in a command writes to stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from gw.instants import format_instant

GAP = "  "


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a command in both forms, and its exit code."""

    record: Mapping[str, Any]
    text: str
    exit_code: int = 0


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result on stdout: the record as one JSON object, or the text."""
    print_line(to_json(result.record) if as_json else result.text)


def print_line(text: str) -> None:
    """Print a line on stdout, replacing characters missing from the terminal's encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def to_json(record: Mapping[str, Any]) -> str:
    """Return a record on one line, in ASCII."""
    return json.dumps(record, default=_plain)


def rfc3339(instant: datetime | None) -> str | None:
    """Return an instant in UTC with a Z; None stays None."""
    return None if instant is None else format_instant(instant)


def sheet(record: Mapping[str, Any]) -> str:
    """Return one record with a line for each field."""
    return _aligned([name, shown(value)] for name, value in record.items())


def table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return records below a header, with some of their fields as columns."""
    rows = [[shown(record[column]) for column in columns] for record in records]
    return _aligned([list(columns), *rows])


def shown(value: Any) -> str:
    """Return one value for people."""
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
    """Convert types of the database that JSON lacks."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, datetime):
        return format_instant(value)
    raise TypeError(f"{value!r} has no place in an answer")
