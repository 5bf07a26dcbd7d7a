"""Figures of a benchmark: windows become medians with their spread. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

Window = dict[str, float]


@dataclass(frozen=True)
class Figure:
    """The median of some windows, the lowest and the highest of them."""

    median: float
    low: float
    high: float
    count: int


@dataclass
class Row:
    """What one server did in one piece of work: its windows by turn, None where one is void."""

    name: str
    windows: list[Window | None] = field(default_factory=list)
    voids: list[str] = field(default_factory=list)  # why windows do not count

    @property
    def valid(self) -> list[Window]:
        """The windows that count."""
        return [window for window in self.windows if window is not None]

    def figure(self, column: str) -> Figure | None:
        """A column's figure, None when not every window that counts has it."""
        values = [window[column] for window in self.valid if column in window]
        if not values or len(values) < len(self.valid):
            return None
        return Figure(median(values), min(values), max(values), len(values))

    def get(self, column: str) -> float | None:
        """The median of a column, None when there is none."""
        figure = self.figure(column)
        return None if figure is None else figure.median


@dataclass
class Section:
    """One piece of work and how each server did it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    def row(self, name: str) -> Row | None:
        """The row of a server, None when it was not measured."""
        return next((row for row in self.rows if row.name == name), None)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed. There must be some."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * share // 1))  # rounded up
    return ordered[int(rank) - 1]


def ratio(row: Row | None, base: Row | None, column: str) -> float | None:
    """By how much a server's figure is that of another, None when either lacks it.

    The median of the ratios of the windows of the same turn: what drifts from turn to turn on a
    machine with other work is in both of them.
    """
    return _paired(row, base, column, lambda above, below: above / below if below else None)


def added(row: Row | None, floor: Row | None, column: str) -> float | None:
    """By how much a server's figure exceeds that of the rig alone, turn by turn as in `ratio`."""
    return _paired(row, floor, column, lambda above, below: above - below)


def _paired(
    row: Row | None,
    base: Row | None,
    column: str,
    compare: Callable[[float, float], float | None],
) -> float | None:
    if row is None or base is None:
        return None
    compared = [
        compare(mine[column], its[column])
        for mine, its in zip(row.windows, base.windows, strict=False)
        if mine is not None and its is not None and column in mine and column in its
    ]
    known = [value for value in compared if value is not None]
    return median(known) if known else None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The least-squares slope of y over x; 0 for fewer than two x."""
    count = len(points)
    if not count:
        return 0.0
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
