"""Figures of a benchmark: windows become medians with their spread; what is to be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from loadtests.rig.targets import GATEWAY, LOOPBACK, REFERENCE, RIG

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
    network: str = LOOPBACK  # what is between the hosts
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


# CPU of the bare proxy's plain call on the machine for which targets in milliseconds were set.
BARE_PLAIN_MS = 0.070

Sections = Mapping[str, Section]
Measured = Callable[[Section], float | None]


class Target(NamedTuple):
    """A bound on one figure of one section; `least` when it must not be below."""

    section: str
    work: str
    bound: float
    text: str  # how figure and bound are written, with {} for the number
    measured: Measured
    least: bool = False
    is_cpu_time: bool = False

    def judge(self, sections: Sections) -> tuple[float, bool] | None:
        """The figure and whether it is met; None when it was not measured."""
        value = self.measured(sections[self.section]) if self.section in sections else None
        if value is None:
            return None
        return value, value >= self.bound if self.least else value <= self.bound


def slowness(sections: Sections) -> float | None:
    """How many times as long a plain call takes the bare proxy as where the targets were set.

    That was over loopback: over a network each packet costs more.
    """
    plain = sections.get("plain")
    base = plain.row(REFERENCE) if plain is not None and plain.network == LOOPBACK else None
    value = None if base is None else base.get("cpu_ms")
    return None if value is None else value / BARE_PLAIN_MS


def own(column: str) -> Measured:
    """A figure of the gateway."""
    return lambda section: row.get(column) if (row := section.row(GATEWAY)) else None


def to_reference(column: str) -> Measured:
    """The gateway's figure as a multiple of the bare proxy's."""
    return lambda section: ratio(section.row(GATEWAY), section.row(REFERENCE), column)


def above_rig(column: str) -> Measured:
    """By how much a figure of the gateway exceeds that of the rig alone."""
    return lambda section: added(section.row(GATEWAY), section.row(RIG), column)


def of_peer(name: str, row: str, column: str) -> Measured:
    """A peer's figure as a multiple of that of our row."""
    return lambda section: ratio(section.row(name), section.row(row), column)


def second_to_first(column: str) -> Measured:
    """The figure of the second row as a multiple of the first one's."""
    return to_first(1, column)


def to_first(place: int, column: str) -> Measured:
    """The figure of a row, counted from 0, as a multiple of the first one's."""
    return lambda section: ratio(section.rows[place], section.rows[0], column)


def furthest(column: str) -> Measured:
    """By what share the highest figure of any number of accounts exceeds the lowest, beside one."""

    def measured(section: Section) -> float | None:
        rows = [row for row in section.rows if row.name.endswith(("account", "accounts"))]
        known = [value for row in rows if (value := ratio(row, rows[0], column))]
        return max(known) / min(known) - 1 if len(known) == len(rows) else None

    return measured


TIMES, MS, SHARE = "{:.2f} ×", "{:.3f} ms", "{:.0%}"
STREAMS = (("paced500", "500 streams"), ("paced2000", "2,000"), ("open10000", "10,000"))
# Section, what is done, the least, and whose row and column are compared with which of ours.
FERROGW = (
    ("plain", "plain call", 1.1, "ferrogw", GATEWAY, "whole_ms"),
    ("stream", "40 events", 2.5, "ferrogw", GATEWAY, "whole_ms"),
    ("paced500", "an event of 500 streams", 1.1, "ferrogw", GATEWAY, "whole_event_us"),
    ("translated", "translated call", 1, "translated of ferrogw", "translated", "whole_ms"),
)

TARGETS: tuple[Target, ...] = (
    Target("plain", "plain call, CPU beside the bare proxy", 2, TIMES, to_reference("cpu_ms")),
    Target("plain", "plain call, PostgreSQL", 0.04, MS, own("pg_ms"), is_cpu_time=True),
    Target("stream", "40 events back to back, CPU", 2, TIMES, to_reference("cpu_ms")),
    *(Target(name, f"{work}, CPU of an event", 1.15, TIMES, to_reference("event_us"))
      for name, work in STREAMS),
    *(Target(name, f"{work}, events served in time", 0.95, SHARE, own("served"), least=True)
      for name, work in STREAMS),
    Target("paced500", "500 streams, first byte p99 added", 5, "{:.1f} ms",
           above_rig("first_p99_ms")),
    Target("paced500", "500 streams, gap p99 added", 5, "{:.1f} ms", above_rig("gap_p99_ms")),
    *(Target(name, f"{work}, memory of an open stream", 40, "{:.0f} KB", own("kb_stream"))
      for name, work in STREAMS),
    Target("open10000", "10,000, windows with a dropped stream", 0, "{:.0f}",
           lambda section: len(row.voids) if (row := section.row(GATEWAY)) else None),
    Target("body", "1 MB body, CPU", 1.5, MS, own("cpu_ms")),
    Target("body", "1 MB body, longest time the loop was blocked", 5, "{:.1f} ms", own("lag_ms")),
    Target("translated", "translated plain call beside the native", 1.35, TIMES,
           second_to_first("cpu_ms")),
    Target("translated-stream", "translated stream beside the native", 1.15, TIMES,
           second_to_first("cpu_ms")),
    Target("half", "half of saturation, p50 added", 0.6, "{:.2f} ms", above_rig("p50_ms")),
    Target("half", "half of saturation, p99 added", 2.5, "{:.2f} ms", above_rig("p99_ms")),
    Target("half", "half of saturation, of the server's core", 0.6, SHARE, own("server_busy")),
    Target("half", "half of saturation, PostgreSQL", 0.024, MS, own("pg_ms"), is_cpu_time=True),
    *(Target(section, f"ferrogw's CPU beside ours and PostgreSQL's: {work}", bound, TIMES,
             of_peer(peer, row, column), least=True)
      for section, work, bound, peer, row, column in FERROGW),
    Target("accounts", "one, a thousand, ten thousand accounts: CPU apart by", 0.2, SHARE,
           furthest("cpu_ms")),
    Target("accounts", "the same, calls a second apart by", 0.2, SHARE, furthest("rate")),
    *(Target("budgets", f"{work} beside neither", bound, TIMES, to_first(place, column))
      for place, column, bound, work in (
          (1, "cpu_ms", 1.1, "two budgets, CPU"),
          (1, "pg_ms", 1.1, "two budgets, PostgreSQL"),
          (2, "cpu_ms", 1.05, "an end user and two labels, CPU"),
          (2, "pg_ms", 1.15, "an end user and two labels, PostgreSQL"),
      )),
    Target("burst", "memory above idle after a burst", 0.1, SHARE, own("above_idle")),
    Target("soak", "memory growth at half load in an hour", 5, "{:.1f} MB", own("mb_per_hour")),
    Target("processes", "two processes, calls a second", 1.8, TIMES, second_to_first("rate"),
           least=True),
    Target("processes", "two processes, CPU of a call", 1.1, TIMES, second_to_first("cpu_ms")),
    Target("hot", "one account over two processes, calls a second beside two accounts", 0.95, TIMES,
           second_to_first("rate"), least=True),
)  # fmt: skip
