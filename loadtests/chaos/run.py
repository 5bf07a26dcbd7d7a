"""Faults under load: from their start to their verdict, and the table of all (`./ops/chaos`)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.chaos.calls import Call
from loadtests.chaos.faults import FAULTS, Broken, Fault, Strike
from loadtests.chaos.judge import (
    Part,
    Verdict,
    called_leases,
    judge,
    open_holds,
    read_book,
    served,
    short,
    shown,
)
from loadtests.chaos.load import Load
from loadtests.chaos.stack import CONCURRENCY, REQUESTS_KEPT, Stack, running
from loadtests.chaos.unit import NotReady
from loadtests.chaos.wrong_clock import WrongClock
from loadtests.rig.machine import description
from loadtests.rig.processes import CommandFailed, gw

# Load before a fault, so that it finds calls of every kind under way.
BEFORE_SECONDS = 2.0
# After the last call nothing may be left for longer than this.
QUIET_SECONDS = 30.0
# Under load every channel is closed so soon after calls are answered again, standbys too.
CLOSED_SECONDS = 30.0
# Log events that report the gateway's own defects.
DEFECTS = (
    "hold_leaked",
    "uncaught_exception",
    "actor_restarted",
    "request_failed",
    "child_died",
    "ledger_batch_failed",
)
# Events of the command itself: it serves; it cannot, and is started again.
COMMAND_LINES = ("ready ", "error: ")


@dataclass
class Result:
    """What became of a fault, or of several on one gateway: of times the longest, in seconds.

    `well_after`: None when calls never were answered again.
    """

    name: str
    verdict: Verdict = field(default_factory=Verdict)
    calls: int = 0
    open_holds: int = 0
    leaked_slots: int = 0
    well_after: float | None = 0.0
    quiet_after: float | None = 0.0
    log: Sequence[str] = ()

    @property
    def is_kept(self) -> bool:
        """Was every promise kept?"""
        return not self.verdict.breaches


async def run(faults: Mapping[str, Fault], *, seed: int, rate: float, seconds: float) -> Result:
    """Strike once with each, one after the other, on a gateway of their own.

    They last so many `seconds` each, 0: as long as each does by itself. The gateway is that of the
    first.
    """
    first = next(iter(faults.values()))
    name = ", ".join(faults)
    rng = random.Random(f"{seed} {name}")
    result = Result(name)
    breaches: list[str] = []
    parts: list[Part] = []
    async with running(seed, **first.settings()) as stack:
        clock = WrongClock(stack.folder / "clock")
        stack.environ = clock.environ
        stack.log_file = stack.folder / "gw.log" if first.logs_to_file else None
        await stack.start()
        try:
            load = Load(stack.port, [tenant.key for tenant in stack.tenants], rng, rate)
            for fault in faults.values():
                before = len(load.calls)
                strike = Strike(stack, load, seconds or fault.seconds or SECONDS, rng, clock)
                breaches += await _struck(fault, strike, result)
                parts.append((load.calls[before:], fault.terms))
            code = await stack.gateway.stop()
        finally:
            stack.gateway.close()
        if code:
            breaches.append(f"the gateway ended with {code}")
        requests = await asyncio.to_thread(stack.upstream.requests, REQUESTS_KEPT)
        book = await asyncio.to_thread(read_book, stack.database_url)
        result.verdict = judge(parts, book, served(requests), strangers=load.strangers)
        result.calls = len(load.calls)
        breaches += await asyncio.to_thread(verify, stack)
        result.log = _log(stack)
    breaches += _of_log(result.log)
    if result.open_holds:
        breaches.append(f"{result.open_holds} holds open after {QUIET_SECONDS:g} s")
    if result.leaked_slots:
        breaches.append(f"{result.leaked_slots} slots leaked")
    if result.well_after is None:
        breaches.append(f"calls are not answered again: {_last_refused(load.calls)}")
    result.verdict.breaches[:0] = breaches
    return result


async def _struck(fault: Fault, strike: Strike, result: Result) -> list[str]:
    """Strike under load, and wait until nothing of it is left; the promises that it breaks."""
    stack, load = strike.stack, strike.load
    breaches: list[str] = []
    load.start()
    await asyncio.sleep(BEFORE_SECONDS)
    try:
        await fault.strike(strike)
    except (Broken, NotReady) as broken:
        breaches.append(str(broken))
    well_after = await load.until_well(time.monotonic(), stack.own_time)
    result.well_after = _longer(result.well_after, well_after)
    if fault.opens and (left := await _left_open(stack)):
        breaches.append(f"after {CLOSED_SECONDS:g} s still open: {', '.join(left)}")
    await load.end()
    try:
        await _grow_quiet(stack, result)
        if called := await asyncio.to_thread(called_leases, stack.database_url):
            breaches.append(f"{called} leases called back and not returned")
    except OSError as error:
        result.quiet_after = None
        breaches.append(f"the gateway is not to be reached: {error!r}")
    return breaches


def _longer(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


async def _left_open(stack: Stack) -> list[str]:
    """Wait until each channel is closed in each process; those that are not after so long."""
    left: set[str] = set()

    async def are_closed() -> bool:
        nonlocal left
        states = (await stack.page()).series("gw_channel_state")
        left = {
            name for (name, _, state), is_in in states.items() if state == "closed" and not is_in
        }
        return not left

    await stack.own_time.until(are_closed, CLOSED_SECONDS)
    return sorted(left)


async def _grow_quiet(stack: Stack, result: Result) -> None:
    """Wait until nothing is held or in flight, and note what is after so long."""
    since, held, slots = time.monotonic(), 0, 0

    async def is_quiet() -> bool:
        nonlocal held, slots
        held = len(await asyncio.to_thread(open_holds, stack.database_url))
        page = await stack.page()
        leases = [CONCURRENCY - free for free in await stack.free_places()]
        slots = int(
            page.total("gw_channel_slots_in_use") + page.total("gw_calls_in_flight") + sum(leases)
        )
        return not held and not slots

    if await stack.own_time.until(is_quiet, QUIET_SECONDS, pause=0.5):
        result.quiet_after = _longer(result.quiet_after, time.monotonic() - since)
    else:
        result.quiet_after = None
        result.open_holds = max(result.open_holds, held)
        result.leaked_slots = max(result.leaked_slots, slots)


def verify(stack: Stack) -> list[str]:
    """What `gw ledger verify` finds, costs too."""
    environ = {**stack.environ, "GW_ADMIN_PORT": "0"}
    try:
        gw(stack.config, "ledger", "verify", "--costs", environ=environ)
    except CommandFailed as failed:
        return [f"gw ledger verify: {failed}"]
    return []


def _log(stack: Stack) -> list[str]:
    if stack.log_file is not None:
        return stack.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    return stack.gateway.lines


def _last_refused(calls: Sequence[Call]) -> str:
    refused = [call for call in calls if call.outcome != "answered"]
    return f"{refused[-1].outcome}, {short(refused[-1])}" if refused else "too few came"


def _of_log(lines: Sequence[str]) -> list[str]:
    """Events of the log that report a defect, each sort once."""
    found: Counter[str] = Counter()
    first: dict[str, str] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            action, level = entry["action"], entry["level"]
        except (ValueError, KeyError, TypeError):
            if line.startswith(COMMAND_LINES):
                continue
            action, level = "a line that is none of the log's", "critical"
        # A request that failed for a database that does not answer is a warning, and no defect.
        is_outage = (action, level) == ("request_failed", "warning")
        if level == "critical" or (action in DEFECTS and not is_outage):
            found[action] += 1
            first.setdefault(action, line)
    return [f"logged {count} times: {first[action][:600]}" for action, count in found.items()]


TABLE = Path(__file__).resolve().parents[1] / "chaos.md"
SECONDS = 6.0


def cells(result: Result) -> Mapping[str, object]:
    """A row of the table by its columns."""
    verdict, seen = result.verdict, result.verdict.outcomes
    wrong = {
        "lost": verdict.lost,
        "double-settled": verdict.double,
        "forgotten": verdict.forgotten,
        "open holds after 30 s": result.open_holds,
        "leaked slots": result.leaked_slots,
    }
    return {
        "fault": result.name,
        "calls": result.calls,
        "answered": seen["answered"],
        "refused": seen["refused"],
        "interrupted": seen["interrupted"] + seen["cut"],
        "unanswered": seen["unanswered"] + seen["hung"],
        "left": seen["left"],
        "wrong": ", ".join(f"{n} {name}" for name, n in wrong.items() if n) or "nothing",
        "well after": _seconds(result.well_after),
        "quiet after": _seconds(result.quiet_after),
        "promises": "kept" if result.is_kept else f"**{len(verdict.breaches)} broken**",
    }


def chaos(
    only: Sequence[str] = (),
    seconds: float = 0.0,
    rate: float = 25.0,
    seed: int = 1,
    write: Path | None = None,
    logs: Path | None = None,
    together: bool = False,
) -> bool:
    """Strike with the faults that are named, or all; whether every promise was kept.

    Each has a gateway of its own; with `--together` they strike one after the other on one, which
    is one row. `--seconds` are of each fault (6, a paused server's 20), `--logs` is a folder for
    what the gateways log, `--write` the file of the table; that of all faults is
    `loadtests/chaos.md`. What a fault does stands in `loadtests/README.md`; `--only ?` lists them.
    """
    if unknown := sorted({*only} - FAULTS.keys()):
        raise SystemExit(f"--only: no {', '.join(unknown)}, but {', '.join(FAULTS)}")
    columns = cells(Result(""))
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    print(*lines, sep="\n", flush=True)
    broken = 0
    chosen = {name: FAULTS[name] for name in only or FAULTS}
    if together and len({(one.settings, one.logs_to_file) for one in chosen.values()}) > 1:
        raise SystemExit("--together: some of these faults need a gateway with other settings")
    for faults in [chosen] if together else [{name: fault} for name, fault in chosen.items()]:
        result = asyncio.run(run(faults, seed=seed, rate=rate, seconds=seconds))
        lines.append(f"| {' | '.join(map(str, cells(result).values()))} |")
        print(lines[-1], flush=True)
        for breach in shown(result.verdict.breaches):
            print(f"  {result.name}: {breach}", flush=True)
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"{result.name}.log").write_text("\n".join(result.log), encoding="utf-8")
        broken += not result.is_kept
    if write or not only:
        given = ["--only", *only] if only else []
        given += ["--together"] if together else []
        given += ["--seconds", f"{seconds:g}"] if seconds else []
        command = " ".join(["./ops/chaos", *given, "--rate", f"{rate:g}", "--seed", str(seed)])
        page = [
            "# Faults under load",
            "",
            f"`{command}`. What each row and column means stands in",
            "[`README.md`](README.md#opschaos).",
            "",
            *(f"- {line}" for line in description()),
            "",
            *lines,
            "",
        ]
        (write or TABLE).write_text("\n".join(page), encoding="utf-8")
    print(f"{len(lines) - 2} rows, {broken} of them with a broken promise")
    return not broken


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
