"""A gateway killed under load again and again: is every delivered response charged, and once?

    python -m loadtests.attacks.kills [--kills 100] [--rate 40] [--seed 1]

Plain calls, streams, pictures and films come all the while, as in `./ops/chaos`. At random moments
parent and workers get SIGKILL and are started again at once; a later kill may come while the calls
of an earlier one are still being recovered. Prints how many responses clients had whole and how
many of them were charged exactly, how many were lost, charged less or more than their price or
twice, and how long it took until the gateway served and until the killed calls had ended. Exits 1
when `gw ledger verify` finds something, a whole response was not charged in full, or any other
promise of `loadtests/chaos/judge.py` was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, field

from loadtests.bench.figures import percentile
from loadtests.chaos.faults import Fault, Strike
from loadtests.chaos.judge import holds_of_calls, shown
from loadtests.chaos.run import run

# Between a gateway that serves again and the next kill, at most.
BETWEEN_SECONDS = 1.5
POLL_SECONDS = 0.1
ENDED_SECONDS = 30.0  # after which no call of a killed process may be open


@dataclass
class Kills:
    """What the kills of a run took, in seconds."""

    count: int
    served_after: list[float] = field(default_factory=list)
    ended_after: list[float] = field(default_factory=list)
    under_way: int = 0  # calls that were written as open at a kill
    too_long: int = 0  # calls of a killed process open after ENDED_SECONDS

    async def strike(self, strike: Strike) -> None:
        """Kill at random moments, and wait for the end of what was under way."""
        strike.stack.gateway.restart_seconds = 0.0
        ends = []
        for _ in range(self.count):
            await asyncio.sleep(strike.rng.uniform(0, BETWEEN_SECONDS))
            strike.stack.kill_gateway()
            killed_at = time.monotonic()
            ends.append(asyncio.create_task(self._wait_for_ends(strike, killed_at)))
            await strike.stack.gateway.ready()
            self.served_after.append(time.monotonic() - killed_at)
        await asyncio.gather(*ends)

    async def _wait_for_ends(self, strike: Strike, killed_at: float) -> None:
        url = strike.stack.database_url
        left = await asyncio.to_thread(holds_of_calls, url)
        self.under_way += len(left)
        while left and time.monotonic() - killed_at < ENDED_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            left &= await asyncio.to_thread(holds_of_calls, url)
        self.too_long += len(left)
        if not left:
            self.ended_after.append(time.monotonic() - killed_at)


def spread(seconds: list[float]) -> str:
    """The median and the longest."""
    if not seconds:
        return "never"
    return f"{percentile(seconds, 0.5):.1f} s, at most {max(seconds):.1f} s"


def attack(options: argparse.Namespace) -> bool:
    """Run and print; whether all is as it must be."""
    kills = Kills(options.kills)
    fault = Fault(
        strike=kills.strike, may=frozenset({"unanswered", "cut", "refused"}), forgets=True
    )
    result = asyncio.run(run("kills", fault, seed=options.seed, rate=options.rate, seconds=0))
    found = result.verdict
    outcomes = ", ".join(f"{count} {name}" for name, count in found.outcomes.most_common())
    print(f"{options.kills} kills under {result.calls} calls: {outcomes}")
    print(
        f"whole at the client {found.outcomes['answered']}: charged exactly {found.exact}, charged"
        f" less {found.forgotten}, lost {found.lost}; of all calls charged more than their price"
        f" {found.over}, twice {found.double}"
    )
    print(f"served again after {spread(kills.served_after)}")
    print(
        f"{kills.under_way} calls were open at a kill, ended after {spread(kills.ended_after)};"
        f" open after {ENDED_SECONDS:g} s {kills.too_long}; open at the end {result.open_holds}"
    )
    for breach in shown(found.breaches):
        print(f"  {breach}")
    is_well = result.is_kept and not found.forgotten and not kills.too_long
    print("every promise kept, the ledger adds up" if is_well else "NOT so")
    return is_well


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rate", type=float, default=40.0, help="calls a second (40)")
    parser.add_argument("--seed", type=int, default=1)
    return 0 if attack(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
