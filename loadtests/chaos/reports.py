"""Two attacks that chaos reports in words of their own: many kills, and a pause of the database.

Plain calls, streams, pictures and films come all the while, as in `./ops/chaos`. Pictures and films
have idempotency keys, which are durable before their upstream is called.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from loadtests.bench.figures import percentile
from loadtests.chaos.calls import Call, Outcome
from loadtests.chaos.faults import Fault, Strike
from loadtests.chaos.judge import open_holds, shown
from loadtests.chaos.run import Result, run
from loadtests.rig.servers import frozen_server

# Between a gateway that serves again and the next kill, at most.
BETWEEN_SECONDS = 1.5
POLL_SECONDS = 0.5
ENDED_SECONDS = 30.0  # of service, after which no call of a killed process may be open
KILLING_SECONDS = 300.0


def kills(
    kills: int = 100, rate: float = 40.0, seed: int = 1, seconds: float = KILLING_SECONDS
) -> bool:
    """A gateway killed under load again and again: is every response charged, and once?

    At random moments parent and workers get SIGKILL and are started again at once; a later kill may
    come while another worker still starts, and while the calls of an earlier kill are still being
    recovered. A start takes four seconds of CPU, much longer on a busy machine, so no kill comes
    after `--seconds`; the rest takes a minute or two. What must come within a time has the time
    that the machine gives it (`loadtests/rig/own_time.py`). Prints how many kills there were, how
    many responses clients had whole and how many of them were charged exactly, how many were lost,
    charged less or more than their price or twice, and how long it took until the gateway served
    and until the killed calls had ended. Exits 1 when `gw ledger verify` finds something, a whole
    response was not charged in full, or any other promise of `loadtests/chaos/judge.py` was broken.
    """
    served_after: list[float] = []
    ended_after: list[float] = []
    under_way = too_long = 0
    # Of its own time; None: it was killed and does not serve again yet.
    serving_since: float | None = None

    async def wait_for_ends(strike: Strike, killed_at: float) -> None:
        nonlocal under_way, too_long
        url = strike.stack.database_url
        left = await asyncio.to_thread(open_holds, url, with_jobs=False)
        under_way += len(left)
        own_time = strike.stack.own_time
        while left and (
            serving_since is None or own_time.seconds() - serving_since < ENDED_SECONDS
        ):
            await asyncio.sleep(POLL_SECONDS)
            left &= await asyncio.to_thread(open_holds, url, with_jobs=False)
        too_long += len(left)
        if not left:
            ended_after.append(time.monotonic() - killed_at)

    async def strike(strike: Strike) -> None:
        nonlocal serving_since
        strike.stack.gateway.restart_seconds = 0.0
        ends: list[asyncio.Task[None]] = []
        began_at = time.monotonic()
        while len(ends) < kills and time.monotonic() - began_at < seconds:
            await asyncio.sleep(strike.rng.uniform(0, BETWEEN_SECONDS))
            strike.stack.kill_gateway()
            killed_at, serving_since = time.monotonic(), None
            ends.append(asyncio.create_task(wait_for_ends(strike, killed_at)))
            await strike.stack.serves()
            serving_since = strike.stack.own_time.seconds()
            served_after.append(time.monotonic() - killed_at)
        await strike.stack.gateway.ready()
        await asyncio.gather(*ends)

    fault = Fault(strike=strike, may=frozenset({"unanswered", "cut", "refused"}), forgets=True)
    result = asyncio.run(run({"kills": fault}, seed=seed, rate=rate, seconds=0))
    found = result.verdict
    print(
        f"{len(served_after)} of {kills} kills under {result.calls} calls:"
        f" {_counted(found.outcomes)}"
    )
    print(
        f"whole at the client {found.outcomes['answered']}: charged exactly {found.exact}, charged"
        f" less {found.forgotten}, lost {found.lost}; of all calls charged more than their price"
        f" {found.over}, twice {found.double}"
    )
    print(f"served again after {_spread(served_after)}")
    print(
        f"{under_way} calls were open at a kill, ended after {_spread(ended_after)};"
        f" open after {ENDED_SECONDS:g} s of service {too_long}; open at the end"
        f" {result.open_holds}"
    )
    return _concluded(result, is_well=not found.forgotten and not too_long)


def pause(seconds: float = 5.0, rate: float = 40.0, least: float = 0.0, seed: int = 1) -> bool:
    """A PostgreSQL that stands still under load: what do clients notice, and is anything lost?

    Calls come at the same rate before, while every process of the server is stopped (SIGSTOP), and
    after it goes on, for as many seconds each; the gateway knows all accounts by then and their
    balances are ample. Prints for each stretch what became of its plain calls and streams, how many
    were answered a second, and how much longer than their upstream they took. Exits 1 when
    `gw ledger verify` finds something or another promise of `loadtests/chaos/judge.py` was broken,
    and with `--least 0.9` when the pause had fewer answers than that share of the earlier rate.
    """
    stretches: dict[str, tuple[float, float]] = {}  # name: begin and end
    calls: Sequence[Call] = ()

    async def last(strike: Strike, name: str) -> None:
        began = time.monotonic()
        await strike.last()
        stretches[name] = (began, time.monotonic())

    async def strike(strike: Strike) -> None:
        nonlocal calls
        calls = strike.load.calls
        await last(strike, "before")
        with frozen_server(strike.stack.folder):
            await last(strike, "paused")
        await last(strike, "after")

    fault = Fault(strike=strike, may=frozenset({"refused"}))
    result = asyncio.run(run({"pause": fault}, seed=seed, rate=rate, seconds=seconds))
    rates = {name: _print_stretch(name, calls, *times) for name, times in stretches.items()}
    share = rates["paused"] / rates["before"] if rates["before"] else 0.0
    found = result.verdict
    print(
        f"rate in the pause {share:.2f} of the one before; lost {found.lost}, charged twice"
        f" {found.double}, charged less {found.forgotten}, open at the end {result.open_holds}"
    )
    return _concluded(result, is_well=share >= least)


def _print_stretch(name: str, calls: Sequence[Call], began: float, ended: float) -> float:
    """What became of the calls that were begun in a stretch; returns how many ended a second."""
    begun = [call for call in calls if began <= call.began_at < ended]
    plain = [call for call in begun if not call.is_keyed]
    served = [call for call in calls if call.outcome == "answered" and not call.is_keyed]
    rate = sum(began <= call.ended_at < ended for call in served) / (ended - began)
    added = [
        (call.ended_at - call.began_at - call.sent.upstream_seconds) * 1000
        for call in plain
        if call.outcome == "answered"
    ]
    took = "none answered"
    if added:
        p50, p99 = percentile(added, 0.5), percentile(added, 0.99)
        took = f"beyond the upstream p50 {p50:.0f} p99 {p99:.0f} ms"
    keyed = Counter(call.outcome for call in begun if call.is_keyed)
    print(
        f"{name:<7} {_counted(Counter(call.outcome for call in plain))}; {rate:.1f} answered a"
        f" second, {took}; pictures and films: {_counted(keyed)}"
    )
    return rate


def _counted(counts: Counter[Outcome]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def _spread(seconds: Sequence[float]) -> str:
    """The median and the longest."""
    if not seconds:
        return "never"
    return f"{percentile(seconds, 0.5):.1f} s, at most {max(seconds):.1f} s"


def _concluded(result: Result, *, is_well: bool) -> bool:
    for breach in shown(result.verdict.breaches):
        print(f"  {breach}")
    is_well = is_well and result.is_kept
    print("every promise kept, the ledger adds up" if is_well else "NOT so")
    return is_well
