"""The table of a run in Markdown: the machine, figures beside their targets, every section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from loadtests.bench.figures import Row, Section, ratio
from loadtests.bench.record import Measured, Record
from loadtests.bench.rig import REFERENCE
from loadtests.bench.targets import BARE_PLAIN_MS, TARGETS, Sections, slowness

NOTHING = "–"
# Above this share of its cores the rig is what is measured.
RIG_BUSY_MAX = 0.9
SERVED_MIN = 0.95

# column: heading, factor, decimals
COLUMNS: dict[str, tuple[str, float, int]] = {
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
RATIO = "ratio"
EXPLANATIONS = """\
Figures are medians of the windows that count, with the lowest and the highest in brackets. What
each piece of work does, and how its columns are counted, is said in `loadtests/README.md`.
"""


def render(record: Record) -> str:
    """The whole file."""
    quick = "A quick run: it shows that the benchmark works; its figures say nothing."
    lines = ["# What a call costs", "", *(() if record.is_full else (quick, ""))]
    verified = sum(one.verified for one in record.work.values())
    lines += [f"- {line}" for line in record.surroundings]
    lines += [f"- `gw ledger verify` found nothing after {verified} gateways"]
    sections: dict[str, Section] = {}
    for name, measured in record.work.items():
        if measured.section is None:
            lines.append(f"- **{name}: {measured.fault}**")
        else:
            sections[name] = measured.section
            voids = measured.section.all_void()
            lines += [f"- **{name}: every window of {row} is void**" for row in voids]
    if record.is_full:
        lines += ["", "## Beside the targets", "", *_targets(sections)]
    lines += ["", "## Every piece of work", "", EXPLANATIONS]
    for name, section in sections.items():
        lines += [*_section(record.work[name], section), ""]
    return "\n".join(lines).rstrip() + "\n"


def _targets(sections: Sections) -> Iterable[str]:
    slower = slowness(sections)
    rows = []
    for target in TARGETS:
        written = target.text.format
        judged = target.judge(sections)
        bound = ("≥ " if target.least else "≤ ") + written(target.bound)
        if judged is None:
            rows.append([target.work, bound, NOTHING, "", "not measured"])
            continue
        value, is_met = judged
        scaled = written(value / slower) if slower and target.is_cpu_time else ""
        rows.append([target.work, bound, written(value), scaled, "yes" if is_met else "**no**"])
    yield from _grid(["Work", "Target", "Measured", "At the targets' speed", "Met"], rows)
    if slower:
        yield ""
        yield (
            f"A plain call takes the bare proxy {slower * BARE_PLAIN_MS:.3f} ms of CPU here, and "
            f"{BARE_PLAIN_MS:.3f} where the targets in milliseconds of CPU were set: this machine "
            f"is {slower:.2f} times as slow. The fourth column is the measured time divided by "
            "that; the last one judges the time as it was measured."
        )


def _section(measured: Measured, section: Section) -> Iterable[str]:
    base = section.row(REFERENCE)
    columns = [name for name in section.columns if name != RATIO or base is not None]
    headings = [f"× {REFERENCE}" if name == RATIO else COLUMNS[name][0] for name in columns]
    windows = max(len(row.windows) for row in section.rows)
    shares = [one["stolen"] for row in section.rows for one in row.valid if "stolen" in one]
    others = f"; other guests of the host took up to {max(shares, default=0):.1%} of the cores"
    about = f"{measured.date}, `{measured.command}`; windows: {windows}{others if shares else ''}"
    yield from (f"### {section.title}", "", about, "")
    # The cost of an event where there is one, else of a call, is what is compared.
    compared = "event_us" if "event_us" in section.columns else "cpu_ms"
    rows = []
    for row in section.rows:
        multiple = ratio(row, base, compared)
        times = NOTHING if multiple is None else f"{multiple:.2f}"
        rows.append([row.name, *(times if one == RATIO else _cell(row, one) for one in columns)])
    yield from _grid(["", *headings], rows)
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
    middle, low, high = (
        f"{value * factor:,.{decimals}f}" for value in (median(values), min(values), max(values))
    )
    return middle if low == high else f"{middle} ({low}–{high})"


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    yield from (f"| {' | '.join(row)} |" for row in rows)
