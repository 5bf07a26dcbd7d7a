"""Tables of what a listener serves: a row that contradicts its handler or itself is not served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Row = TypeVar("Row")


class MisstatedRow(Exception):
    """A row that contradicts itself or its handler, or a table with one twice or with none."""


def refuse_faults(row: str, faults: Mapping[str, bool]) -> None:
    """Raise MisstatedRow for the first fault that is there."""
    for fault, is_so in faults.items():
        if is_so:
            raise MisstatedRow(f"{row}: {fault}")


def checked_table(
    rows: Sequence[Row], kind: type[Row], names_of: Callable[[Row], Iterable[str]]
) -> Sequence[Row]:
    """Return the rows. Raises MisstatedRow for none, and for what is no row or there twice."""
    if not rows:
        raise MisstatedRow("a listener without rows")
    seen: set[str] = set()
    for one in rows:
        if not isinstance(one, kind):
            raise MisstatedRow(f"{one!r} has no row: state what it is")
        names = set(names_of(one))
        for name in sorted(names & seen):
            raise MisstatedRow(f"{name}: it is there twice")
        seen |= names
    return rows
