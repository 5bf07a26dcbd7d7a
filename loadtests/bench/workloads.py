"""What is measured, piece by piece: each takes a bench and returns a section of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from loadtests.bench.bench import GATEWAY, Ask, Bench
from loadtests.bench.endurance import burst, soak
from loadtests.bench.figures import Section
from loadtests.bench.paced import open10000, paced500, paced2000
from loadtests.bench.placement import available_cores, place

PLAIN = Ask(connections=64)
STREAM = Ask(connections=16, events=40)
BODY = Ask(connections=4, image_bytes=750_000, wants_inside=True)  # a third more in base64
DATABASE_CONNECTIONS = (16, 64, 256)
HALF_CONNECTIONS = 256

PROCESSES_COLUMNS = (
    "rate",
    "cpu_ms",
    "per_core",
    "busiest",
    "pg_ms",
    "p50_ms",
    "p99_ms",
    "server_busy",
    "rig_busy",
)
HALF_COLUMNS = (
    "rate",
    "cpu_ms",
    "pg_ms",
    "p50_ms",
    "p99_ms",
    "hold_ms",
    "batch_ms",
    "batch_messages",
    "server_busy",
    "rig_busy",
)
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
        rate = bench.half_rate(target, PLAIN)
        ask = Ask(connections=HALF_CONNECTIONS, rate=rate, wants_inside=True)
        subjects = [bench.subject(one, ask) for one in (bench.rig.upstream, target)]
        title = f"Latency at half of saturation: {rate:,.0f} plain calls a second as they come"
        section = bench.compare("half", title, HALF_COLUMNS, subjects)
    section.notes.append(
        "A call counts from when it came, also while it waits for a connection. Hold, transaction "
        "and messages (holds and settlements) of one are means of the gateway's own metrics; the "
        "hold is what of the latency is money's."
    )
    return section


def accounts(bench: Bench) -> Section:
    """One hot account beside many."""
    counts = bench.scale.accounts
    with bench.gateway([PLAIN], accounts=sum(counts)) as target:
        subjects, keys, first = [], list(target.keys), []
        for count in counts:
            some, keys = keys[:count], keys[count:]
            name = f"{count:,} accounts" if count > 1 else "1 account"
            subject = bench.subject(target, PLAIN, name=name, keys=some)
            subjects.append(subject)
            first.append(bench.every_key_once(subject))
        title = f"Plain call, {PLAIN.connections} connections, by number of accounts"
        section = bench.compare("accounts", title, CALL_COLUMNS, subjects)
    section.rows += first[1:]  # of one key it would be one call
    section.notes.append(
        "Before the windows each key has been used once, in the rows below; the windows go round "
        "all of them, so that at ten thousand each comes again after ten thousand calls."
    )
    return section


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
            section = wide.compare("processes", title, PROCESSES_COLUMNS, subjects)
        section.notes.append(f"Here: {wide.placement.describe()}.")
        if not wide.placement.is_disjoint:
            section.notes.append(
                "The rig competes with the gateway for the same cores, so the ratio of the rates "
                "is less than the gateway's own; the CPU of a call is to be trusted, and what a "
                "core of its own for each process would serve is the second figure of calls."
            )
        section.notes.append(
            "`calls/s by CPU` is the number of processes divided by the CPU of a call: what they "
            "serve with a core each, as long as none has more to do than the others."
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
