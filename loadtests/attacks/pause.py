"""A PostgreSQL that stands still under load: what do clients notice, and is anything lost?

    python -m loadtests.attacks.pause [--seconds 5] [--rate 40] [--seed 1]

Calls come at the same rate before, while every process of the server is stopped (SIGSTOP), and
after it goes on, for as many seconds each; the gateway knows all accounts by then and their
balances are ample. Prints for each stretch what became of its plain calls and streams, how many
were answered a second, and how much longer than their upstream they took. Pictures and films have
idempotency keys, which are durable before their upstream is called, and are counted apart. Exits 1
when `gw ledger verify` finds something or another promise of `loadtests/chaos/judge.py` was broken;
with `--least 0.9` also when fewer than that share of the earlier rate was answered in the pause.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence

from loadtests.bench.figures import percentile
from loadtests.chaos.calls import Call
from loadtests.chaos.faults import Fault, Strike
from loadtests.chaos.judge import shown
from loadtests.chaos.run import run
from tests.support.servers import frozen_server


class Pause:
    """The stretches of a run, and the calls of all of them."""

    def __init__(self) -> None:
        self.stretches: dict[str, tuple[float, float]] = {}  # name: begin and end
        self.calls: Sequence[Call] = ()

    async def strike(self, strike: Strike) -> None:
        """As long before, as long without the database, as long after."""
        self.calls = strike.load.calls
        await self._last(strike, "before")
        with frozen_server(strike.stack.folder):
            await self._last(strike, "paused")
        await self._last(strike, "after")

    async def _last(self, strike: Strike, name: str) -> None:
        began = time.monotonic()
        await strike.last()
        self.stretches[name] = (began, time.monotonic())

    def rate(self, name: str) -> float:
        """Plain calls and streams whose response ended in a stretch, a second."""
        began, ended = self.stretches[name]
        answered = [call for call in self.calls if call.outcome == "answered" and not call.is_keyed]
        return sum(began <= call.ended_at < ended for call in answered) / (ended - began)

    def line(self, name: str) -> str:
        """What became of the calls that were begun in a stretch."""
        began, ended = self.stretches[name]
        begun = [call for call in self.calls if began <= call.began_at < ended]
        plain = [call for call in begun if not call.is_keyed]
        added = [
            (call.ended_at - call.began_at - call.sent.upstream_seconds) * 1000
            for call in plain
            if call.outcome == "answered"
        ]
        took = "none answered"
        if added:
            p50, p99 = percentile(added, 0.5), percentile(added, 0.99)
            took = f"beyond the upstream p50 {p50:.0f} p99 {p99:.0f} ms"
        return (
            f"{name:<7} {_counted(plain)}; {self.rate(name):.1f} answered a second, {took};"
            f" pictures and films: {_counted([call for call in begun if call.is_keyed])}"
        )


def _counted(calls: Sequence[Call]) -> str:
    counts = Counter(call.outcome for call in calls)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def attack(options: argparse.Namespace) -> bool:
    """Run and print; whether all is as it must be."""
    pause = Pause()
    fault = Fault(strike=pause.strike, may=frozenset({"refused"}))
    result = asyncio.run(
        run("pause", fault, seed=options.seed, rate=options.rate, seconds=options.seconds)
    )
    for name in pause.stretches:
        print(pause.line(name))
    before = pause.rate("before")
    share = pause.rate("paused") / before if before else 0.0
    found = result.verdict
    print(
        f"rate in the pause {share:.2f} of the one before; lost {found.lost}, charged twice"
        f" {found.double}, charged less {found.forgotten}, open at the end {result.open_holds}"
    )
    for breach in shown(found.breaches):
        print(f"  {breach}")
    is_well = result.is_kept and share >= options.least
    print("every promise kept, the ledger adds up" if is_well else "NOT so")
    return is_well


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=40.0, help="calls a second (40)")
    parser.add_argument("--least", type=float, default=0.0, help="share of the rate before (0)")
    parser.add_argument("--seed", type=int, default=1)
    return 0 if attack(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
