"""CSV files as responses, written in portions."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from gw.console.pages import ConsoleHandler

# A file is read and written in portions of so many rows, a turn of the loop each.
PORTION = 200


def start_csv(handler: ConsoleHandler, name: str) -> None:
    """Begin a CSV file."""
    handler.set_header("Content-Type", "text/csv; charset=utf-8")
    handler.set_header("Content-Disposition", f'attachment; filename="{name}"')


async def write_csv(
    handler: ConsoleHandler, head: Sequence[str] | None, rows: Sequence[Sequence[Any]]
) -> None:
    """Write some lines; a cell that a spreadsheet would read as a formula becomes a text."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    if head is not None:
        writer.writerow(head)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    handler.write(buffer.getvalue())
    await handler.flush()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    is_formula = text[:1] in ("=", "+", "@", "\t", "\r") or (
        text[:1] == "-" and not text[1:].replace(".", "", 1).isdigit()
    )
    return f"'{text}" if is_formula else text
