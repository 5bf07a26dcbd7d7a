"""Streams as people read them: many at once, each with an event now and then."""

from __future__ import annotations

from dataclasses import dataclass

from loadtests.bench.bench import Ask, Bench
from loadtests.bench.figures import Section

# What every server has done before its idle memory is taken.
WARM = Ask(connections=64, events=40)
COLUMNS = (
    "event_us",
    "ratio",
    "served",
    "first_p50_ms",
    "first_p99_ms",
    "gap_p99_ms",
    "hold_ms",
    "batch_ms",
    "lag_ms",
    "kb_stream",
    "server_busy",
    "rig_busy",
)


@dataclass(frozen=True)
class Pace:
    """How streams go. Each number of them gets about as many events a second as one core carries.

    Opened evenly over the length of one, so that from then on as many end and begin in each
    moment; or, with `openings`, so many a second before the windows, in which none ends or begins.
    """

    pause_ms: int
    events: int  # of a stream
    in_a_row: int  # windows of one opening
    openings: float | None = None  # a second
    window_seconds: float | None = None

    def ask(self, streams: int) -> Ask:
        """So many streams at this pace."""
        length_seconds = self.events * self.pause_ms / 1000
        return Ask(
            connections=streams,
            events=self.events,
            pause_ms=self.pause_ms,
            opening_seconds=length_seconds if self.openings is None else streams / self.openings,
            in_a_row=self.in_a_row,
            window_seconds=self.window_seconds,
            is_opening_told=self.openings is not None,
            wants_inside=True,
        )


FAST = Pace(pause_ms=20, events=100, in_a_row=3)
SLOW = Pace(pause_ms=100, events=50, in_a_row=3)
# 13 seconds of opening, 8 of windows, and then the first of them ends.
OPEN = Pace(pause_ms=500, events=45, in_a_row=4, openings=800, window_seconds=2.0)


def paced500(bench: Bench) -> Section:
    """Streams paced at 20 ms."""
    return _paced(bench, "paced500", bench.scale.streams[0], FAST)


def paced2000(bench: Bench) -> Section:
    """More streams, paced more slowly."""
    return _paced(bench, "paced2000", bench.scale.streams[1], SLOW)


def open10000(bench: Bench) -> Section:
    """Many open streams, paced slowly."""
    return _paced(bench, "open10000", bench.scale.streams[2], OPEN)


def _paced(bench: Bench, name: str, streams: int, pace: Pace) -> Section:
    ask = pace.ask(streams)
    title = f"{streams:,} streams open, an event each every {pace.pause_ms} ms"
    with bench.servers(ask, WARM) as targets:
        if pace.openings is not None:
            # The upstream keeps a connection for each stream of each server that has had its
            # turn: the largest number leaves no files for the load's own.
            targets = [one for one in targets if not one.is_rig]
        bench.warm(targets, WARM)
        subjects = [bench.subject(target, ask) for target in targets]
        columns = COLUMNS if pace.openings is None else ("openings", *COLUMNS)
        section = bench.compare(name, title, columns, subjects)
    due = f"{streams * 1000 // pace.pause_ms:,} events are due a second"
    if pace.openings is None:
        section.notes.append(
            f"Each stream has {pace.events} events and is asked for again, at moments spread "
            f"evenly: {streams / ask.opening_seconds:,.0f} openings are in each second of a "
            f"window, and {due}."
        )
    else:
        section.notes.append(
            f"Each stream has {pace.events} events. All are opened before the windows, evenly; "
            "openings a second and first bytes are those of that time. In the windows none begins "
            f"or ends, and {due}; then all are read to their end."
        )
    section.notes.append(
        "Memory is above that of the same process after 64 streams, the highest at the edge of a "
        "window."
    )
    return section
