"""Figures of a benchmark: windows become medians with their spread. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

Window = dict[str, float]


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

    def values(self, column: str) -> list[float]:
        """A column of the windows that count; none unless all of them have it."""
        values = [window[column] for window in self.valid if column in window]
        return values if len(values) == len(self.valid) else []

    def get(self, column: str) -> float | None:
        """The median of a column, None when there is none."""
        return _median(self.values(column))


@dataclass
class Section:
    """One piece of work and how each server did it; when, by which command, else why not."""

    title: str = ""
    columns: Sequence[str] = ()
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    date: str = ""
    command: str = ""
    verified: int = 0  # gateways after which `gw ledger verify` found nothing
    fault: str = ""  # why there are no figures

    def row(self, name: str) -> Row | None:
        """The row of a server, None when it was not measured."""
        return next((row for row in self.rows if row.name == name), None)

    def all_void(self) -> list[str]:
        """The servers of which nothing is known, because something failed in every window."""
        return [row.name for row in self.rows if row.voids and not row.valid]


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
    return _median([mine / its for mine, its in _paired(row, base, column) if its])


def added(row: Row | None, floor: Row | None, column: str) -> float | None:
    """By how much a server's figure exceeds that of the rig alone, turn by turn as in `ratio`."""
    return _median([mine - its for mine, its in _paired(row, floor, column)])


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _paired(row: Row | None, base: Row | None, column: str) -> list[tuple[float, float]]:
    turns = zip(row.windows if row else (), base.windows if base else (), strict=False)
    pairs = [(mine, its) for mine, its in turns if mine is not None and its is not None]
    return [(mine[column], its[column]) for mine, its in pairs if column in mine and column in its]
