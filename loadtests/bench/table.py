"""The table of a run in Markdown, and its windows in JSON beside it, to be measured in parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from loadtests.bench.figures import BARE_PLAIN_MS, TARGETS, Row, Section, ratio, slowness
from loadtests.rig.targets import LOOPBACK, REFERENCE

NOTHING, RATIO = "–", "ratio"
RIG_BUSY_MAX = 0.9  # above this share of its cores the rig is what is measured
SERVED_MIN = 0.95
# column: heading, factor, decimals
COLUMNS: dict[str, tuple[str, float, int]] = {
    RATIO: (f"× {REFERENCE}", 1, 2),
    "rate": ("calls/s", 1, 0),
    "cpu_ms": ("CPU ms/call", 1, 3),
    "per_core": ("calls/s by CPU", 1, 0),
    "busiest": ("busiest process's share %", 100, 0),
    "pg_ms": ("PostgreSQL ms/call", 1, 3),
    "p50_ms": ("p50 ms", 1, 2),
    "p99_ms": ("p99 ms", 1, 2),
    "hold_ms": ("hold ms", 1, 2),
    "batch_ms": ("transaction ms", 1, 2),
    "batch_messages": ("messages in one", 1, 1),
    "polls": ("polls/s", 1, 1),
    "openings": ("openings/s", 1, 0),
    "event_us": ("CPU µs/event", 1, 1),
    "served": ("served %", 100, 0),
    "first_p50_ms": ("first byte p50 ms", 1, 1),
    "first_p99_ms": ("first byte p99 ms", 1, 1),
    "gap_p99_ms": ("gap p99 ms", 1, 1),
    "kb_stream": ("KB/stream", 1, 0),
    "lag_ms": ("loop blocked ≤ ms", 1, 1),
    "server_busy": ("server's core %", 100, 0),
    "rig_busy": ("rig's cores %", 100, 0),
    "idle_mb": ("idle MB", 1, 1),
    "peak_mb": ("peak MB", 1, 1),
    "after_mb": ("after MB", 1, 1),
    "above_idle": ("above idle %", 100, 0),
    "recovered_s": ("seconds waited", 1, 0),
    "minutes": ("minutes", 1, 1),
    "first_mb": ("first MB", 1, 1),
    "last_mb": ("last MB", 1, 1),
    "mb_per_hour": ("MB/hour", 1, 1),
}
EXPLANATIONS = """\
Figures are medians of the windows that count, with the lowest and the highest in brackets. What
each piece of work does, and how its columns are counted, is said in `loadtests/README.md`.
"""


@dataclass
class Table:
    """Pieces of work by name. `surroundings` are lines: the machine, versions, placement."""

    surroundings: Sequence[str]
    work: dict[str, Section] = field(default_factory=dict)

    def put(self, name: str, section: Section, order: Iterable[str]) -> None:
        """Replace a piece of work, in the order of the table."""
        work = {**self.work, name: section}
        self.work = {one: work[one] for one in order if one in work}

    def keep(self, path: Path) -> None:
        """Write the table, and its windows beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.render(), encoding="utf-8")
        path.with_suffix(".json").write_bytes(msgspec.json.encode(self) + b"\n")

    def render(self) -> str:
        """The whole file."""
        verified = sum(one.verified for one in self.work.values())
        lines = ["# What a call costs", "", *(f"- {line}" for line in self.surroundings)]
        lines += [f"- `gw ledger verify` found nothing after {verified} gateways"]
        for name, one in self.work.items():
            lines += [f"- **{name}: {one.fault}**"] if one.fault else []
            lines += [f"- **{name}: every window of {row} is void**" for row in one.all_void()]
        measured = {name: one for name, one in self.work.items() if not one.fault}
        lines += ["", "## Beside the targets", "", *_targets(measured)]
        lines += ["", "## Every piece of work", "", EXPLANATIONS]
        for section in measured.values():
            lines += [*_section(section), ""]
        return "\n".join(lines).rstrip() + "\n"


def begin(path: Path, surroundings: Sequence[str]) -> Table:
    """The table to go on with; a new one unless it is of this machine and of these versions."""
    json = path.with_suffix(".json")
    kept = msgspec.json.decode(json.read_bytes(), type=Table) if json.exists() else None
    return kept if kept and kept.surroundings == surroundings else Table(surroundings)


def _targets(sections: dict[str, Section]) -> Iterable[str]:
    slower, rows = slowness(sections), []
    for target in TARGETS:
        written = target.text.format
        bound = ("≥ " if target.least else "≤ ") + written(target.bound)
        network, cells = NOTHING, [NOTHING, "", "not measured"]
        if (judged := target.judge(sections)) is not None:
            value, is_met = judged
            is_near = sections[target.section].network == LOOPBACK
            network = LOOPBACK if is_near else "network"
            scaled = written(value / slower) if slower and target.is_cpu_time else ""
            cells = [written(value), scaled, "yes" if is_met else "**no**"]
        rows.append([target.work, network, bound, *cells])
    columns = ["Work", "Over", "Target", "Measured", "At the targets' speed", "Met"]
    yield from _grid(columns, rows)
    if slower:
        yield ""
        yield (
            f"A plain call takes the bare proxy {slower * BARE_PLAIN_MS:.3f} ms of CPU here, and "
            f"{BARE_PLAIN_MS:.3f} where the targets in milliseconds of CPU were set: this machine "
            f"is {slower:.2f} times as slow. The fifth column is the measured time divided by "
            "that; the last one judges the time as it was measured."
        )


def _stolen(section: Section) -> str:
    shares = [one["stolen"] for row in section.rows for one in row.valid if "stolen" in one]
    return f"; other guests of the host took up to {max(shares):.1%} of the cores" if shares else ""


def _section(section: Section) -> Iterable[str]:
    base = section.row(REFERENCE)
    columns = [name for name in section.columns if name != RATIO or base is not None]
    windows = max(len(row.windows) for row in section.rows)
    measured = f"{section.date}, `{section.command}`; over {section.network}; windows: {windows}"
    yield from (f"### {section.title}", "", measured + _stolen(section), "")
    # The cost of an event where there is one, else of a call, is what is compared.
    compared = "event_us" if "event_us" in section.columns else "cpu_ms"
    rows = []
    for row in section.rows:
        multiple = ratio(row, base, compared)
        special = {RATIO: NOTHING if multiple is None else f"{multiple:.2f}"}
        rows.append([row.name, *(special.get(one) or _cell(row, one) for one in columns)])
    yield from _grid(["", *(COLUMNS[name][0] for name in columns)], rows)
    notes = [*section.notes, *_remarks(section)]
    yield from ("", *(f"- {note}" for note in notes)) if notes else ()


def _remarks(section: Section) -> Iterable[str]:
    """What a reader has to know before comparing: void windows, and a rig at its limit."""
    for row in section.rows:
        reasons = "; ".join(sorted(set(row.voids)))
        if row.voids:
            voids = f"{len(row.voids)} windows are" if row.valid else "every window is"
            yield f"{row.name}: {voids} void ({reasons})"
    late = [row.name for row in section.rows if (row.get("served") or 1) < SERVED_MIN]
    if late:
        yield (
            f"Less than {SERVED_MIN:.0%} of the events came in time through: {', '.join(late)}. "
            "Late ones come several at a time, so one costs less than it would at its pace."
        )
    limited = [row.name for row in section.rows if (row.get("rig_busy") or 0) > RIG_BUSY_MAX]
    if limited:
        yield f"The rig is at its limit in: {', '.join(limited)}."


def _cell(row: Row, column: str) -> str:
    values = row.values(column)
    if not values:
        return NOTHING
    _, factor, decimals = COLUMNS[column]
    figures = [median(values), min(values), max(values)]
    middle, low, high = (f"{value * factor:,.{decimals}f}" for value in figures)
    return middle if low == high else f"{middle} ({low}–{high})"


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    yield from (f"| {' | '.join(row)} |" for row in rows)
