"""Figures of a benchmark: windows become medians with their spread. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

Window = Mapping[str, float]


@dataclass(frozen=True)
class Figure:
    """The median of some windows, the lowest and the highest of them."""

    median: float
    low: float
    high: float
    count: int


@dataclass
class Row:
    """What one server did in one piece of work."""

    name: str
    figures: dict[str, Figure] = field(default_factory=dict)
    voids: list[str] = field(default_factory=list)  # why windows do not count

    def get(self, column: str) -> float | None:
        """The median of a column, None when there is none."""
        figure = self.figures.get(column)
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


def summarise(windows: Sequence[Window]) -> dict[str, Figure]:
    """A figure for each column that every window has."""
    if not windows:
        return {}
    shared = [name for name in windows[0] if all(name in window for window in windows)]
    made = {}
    for name in shared:
        values = [window[name] for window in windows]
        made[name] = Figure(median(values), min(values), max(values), len(values))
    return made


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed. There must be some."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * share // 1))  # rounded up
    return ordered[int(rank) - 1]


def ratio(row: Row | None, base: Row | None, column: str) -> float | None:
    """By how much a server's figure is that of another, None when either lacks it."""
    above = row.get(column) if row is not None else None
    below = base.get(column) if base is not None else None
    if above is None or not below:
        return None
    return above / below


def added(row: Row | None, floor: Row | None, column: str) -> float | None:
    """By how much a server's figure exceeds that of the rig alone, None when either lacks it."""
    above = row.get(column) if row is not None else None
    below = floor.get(column) if floor is not None else None
    return None if above is None or below is None else above - below


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
