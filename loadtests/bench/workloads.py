"""What is measured, piece by piece: each takes a bench and returns a section of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from loadtests.bench.bench import GATEWAY, Ask, Bench
from loadtests.bench.endurance import burst, soak
from loadtests.bench.figures import Section
from loadtests.bench.placement import available_cores, place

PLAIN = Ask(connections=64)
STREAM = Ask(connections=16, events=40)
# Each number of streams gets about as many events a second as one core carries, so the more there
# are the slower they are paced: 25,000, 20,000 and 20,000 a second.
PAUSES_MS = (20, 100, 500)
EVENTS = (100, 50, 24)  # of a stream: each lasts some seconds
# Opened so many a second, over five seconds at most: in a crowd that arrives at once each waits for
# the others, which says nothing of a stream.
STREAMS_A_SECOND = 250
OPENING_SECONDS_MAX = 5.0
BODY = Ask(connections=4, image_bytes=750_000)  # a third more in base64
DATABASE_CONNECTIONS = (16, 64, 256)
HALF_CONNECTIONS = 256

CALL_COLUMNS = (
    "rate",
    "cpu_ms",
    "ratio",
    "pg_ms",
    "p50_ms",
    "p99_ms",
    "server_busy",
    "rig_busy",
)
PACED_COLUMNS = (
    "event_us",
    "ratio",
    "served",
    "first_p50_ms",
    "first_p99_ms",
    "gap_p99_ms",
    "kb_stream",
    "server_busy",
    "rig_busy",
)


def plain(bench: Bench) -> Section:
    """A plain call, small body."""
    section = _by_server(bench, "plain", f"Plain call, {PLAIN.connections} connections", PLAIN)
    row = section.row(GATEWAY)
    bench.plain_rate = row.get("rate") if row is not None else None
    return section


def stream(bench: Bench) -> Section:
    """Streams back to back."""
    title = f"{STREAM.events}-event stream back to back, {STREAM.connections} connections"
    return _by_server(bench, "stream", title, STREAM)


def body(bench: Bench) -> Section:
    """A body of 1 MB, a picture."""
    title = f"1 MB body, {BODY.connections} connections"
    columns = (*CALL_COLUMNS[:4], "lag_ms", *CALL_COLUMNS[4:])
    return _by_server(bench, "body", title, BODY, columns)


def _by_server(
    bench: Bench,
    name: str,
    title: str,
    ask: Ask,
    columns: tuple[str, ...] = CALL_COLUMNS,
) -> Section:
    with bench.servers(ask) as targets:
        subjects = [bench.subject(target, ask) for target in targets]
        return bench.compare(name, title, columns, subjects)


def _paced(bench: Bench, number: int) -> Section:
    streams, pause_ms = bench.scale.streams[number], PAUSES_MS[number]
    ask = Ask(
        connections=streams,
        events=EVENTS[number],
        pause_ms=pause_ms,
        opening_seconds=min(OPENING_SECONDS_MAX, streams / STREAMS_A_SECOND),
    )
    title = f"{streams:,} streams open, an event each every {pause_ms} ms"
    with bench.servers(ask) as targets:
        # The upstream keeps a connection for each stream of every server that has had its turn: the
        # largest number leaves no files for the load's own.
        asked = [one for one in targets if number < 2 or one is not bench.rig.upstream]
        subjects = [bench.subject(target, ask) for target in asked]
        section = bench.compare(PACED[number], title, PACED_COLUMNS, subjects)
    section.notes.append(
        f"Each stream has {ask.events} events and is asked for again; "
        f"{streams * 1000 // pause_ms:,} events are due a second."
    )
    return section


PACED = ("paced500", "paced2000", "open10000")


def paced500(bench: Bench) -> Section:
    """Streams paced at 20 ms."""
    return _paced(bench, 0)


def paced2000(bench: Bench) -> Section:
    """More streams, paced more slowly."""
    return _paced(bench, 1)


def open10000(bench: Bench) -> Section:
    """Many open streams, paced slowly."""
    return _paced(bench, 2)


def translated(bench: Bench) -> Section:
    """Chat-completions said in messages, plain, beside the native call."""
    return _translated(bench, "translated", "Translated plain call (chat → messages)", PLAIN)


def translated_stream(bench: Bench) -> Section:
    """The same, streaming."""
    title = f"Translated {STREAM.events}-event stream (chat → messages)"
    return _translated(bench, "translated-stream", title, STREAM)


def _translated(bench: Bench, name: str, title: str, ask: Ask) -> Section:
    other = Ask(connections=ask.connections, events=ask.events, is_translated=True)
    with bench.gateway([ask]) as target:
        subjects = [
            bench.subject(target, ask, name="native"),
            bench.subject(target, other, name="translated"),
        ]
        return bench.compare(name, title, CALL_COLUMNS, subjects)


def half(bench: Bench) -> Section:
    """Latency at half of saturation."""
    with bench.gateway([PLAIN]) as target:
        rate = half_rate(bench, lambda: bench.window(bench.subject(target, PLAIN))["rate"])
        ask = Ask(connections=HALF_CONNECTIONS, rate=rate)
        subjects = [bench.subject(one, ask) for one in (bench.rig.upstream, target)]
        columns = (
            "rate",
            "cpu_ms",
            "pg_ms",
            "p50_ms",
            "p99_ms",
            "server_busy",
            "rig_busy",
        )
        title = f"Latency at half of saturation: {rate:,.0f} plain calls a second as they come"
        return bench.compare("half", title, columns, subjects)


def half_rate(bench: Bench, saturated: Callable[[], float]) -> float:
    """Half of the plain calls a second that the gateway served when it was saturated."""
    if bench.plain_rate is None:
        bench.plain_rate = saturated()
    return bench.plain_rate / 2


def accounts(bench: Bench) -> Section:
    """One hot account beside many."""
    counts = bench.scale.accounts
    with bench.gateway([PLAIN], accounts=sum(counts)) as target:
        subjects, keys = [], list(target.keys)
        for count in counts:
            some, keys = keys[:count], keys[count:]
            name = f"{count:,} accounts" if count > 1 else "1 account"
            subjects.append(bench.subject(target, PLAIN, name=name, keys=some))
        title = f"Plain call, {PLAIN.connections} connections, by number of accounts"
        return bench.compare("accounts", title, CALL_COLUMNS, subjects)


def database(bench: Bench) -> Section:
    """What PostgreSQL takes for a call as load rises."""
    with bench.gateway([PLAIN]) as target:
        subjects = [
            bench.subject(target, Ask(connections=count), name=f"{count} connections")
            for count in DATABASE_CONNECTIONS
        ]
        return bench.compare("database", "Plain call at rising load", CALL_COLUMNS, subjects)


def processes(bench: Bench) -> Section:
    """One process beside several."""
    count = bench.processes
    with bench.placed(place(available_cores(), server=count)) as wide:
        with (
            wide.gateway([PLAIN], name="1 process") as one,
            wide.gateway([PLAIN], name=f"{count} processes", processes=count) as several,
        ):
            ask = Ask(connections=PLAIN.connections * count)
            subjects = [wide.subject(target, ask) for target in (one, several)]
            title = f"{count} processes beside one, {ask.connections} connections"
            section = wide.compare("processes", title, CALL_COLUMNS, subjects)
        section.notes.append(f"Here: {wide.placement.describe()}.")
        if not wide.placement.is_disjoint:
            section.notes.append(
                "The rig competes with the gateway for the same cores, so the ratio of the rates "
                "is less than the gateway's own; the CPU of a call is to be trusted."
            )
        return section


Workload = Callable[[Bench], Section]

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        "plain": plain,
        "stream": stream,
        "paced500": paced500,
        "paced2000": paced2000,
        "open10000": open10000,
        "body": body,
        "translated": translated,
        "translated-stream": translated_stream,
        "half": half,
        "accounts": accounts,
        "database": database,
        "burst": burst,
        "processes": processes,
        "soak": soak,
    }
)
