"""Three times the rated load: python -m loadtests overload [--times 3] [--seconds 10].

Starts a gateway with its database and the upstream of canned bytes, each on the cores that the
benchmark gives them, and finds what the gateway can do at most (a closed loop). Its rated load is
four fifths of that. Then calls arrive whatever becomes of them: at a tenth of the rated load, at
the rated load, at so many times of it, and at half of it, once with a pause of the process.
Latencies count from when a request was due. Prints one line for each, what becomes of some hundred
calls at one moment, and what a refusal cost beside a call.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvloop

from loadtests.bench.figures import percentile
from loadtests.bench.load import Ask, Load, Subject, Tally
from loadtests.bench.upstream import CHANNELS, chat_body, model_name, models, requests
from loadtests.rig.machine import (
    available_cores,
    cpu_seconds,
    go_first,
    pin,
    place,
    resident_mb,
    session_kept,
    tree,
)
from loadtests.rig.targets import Target, gateway, light_upstream

RATED = 0.8  # of what it can do at most
CLOSED_CONNECTIONS = 64
OPEN_CONNECTIONS = 2000  # of arrivals; what finds none of them free waits for one
SELDOM = 1e-6  # a second: arrivals that are none
WAIT_SECONDS = 20.0  # for answers after the last request
PAUSE_SECONDS = 2.0
TURN_SECONDS = 0.01
REFUSED = "HTTP/1.1 503"


@dataclass
class Stretch:
    """What became of the requests of one stretch. Times in seconds."""

    name: str
    seconds: float
    tally: Tally
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    waiting: int = 0
    at_first: int = 0  # served in the first second
    admin: list[float] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)  # in each second

    @property
    def goodput(self) -> float:
        """Served calls a second."""
        return self.tally.responses / self.seconds

    def line(self) -> str:
        """The report of it."""
        served, refused = self.tally.seconds, self.tally.refused
        other = {name: n for name, n in self.tally.faults.items() if name != REFUSED}
        return (
            f"{self.name:<20} offered {(len(served) + len(refused)) / self.seconds:6.0f}/s"
            f"  served {self.goodput:6.0f}/s"
            f"  p50 {quantile(served, 0.5):7.1f} p95 {quantile(served, 0.95):7.1f} ms"
            f"  refused {len(refused):6d} p95 {quantile(refused, 0.95):6.1f}"
            f" p99 {quantile(refused, 0.99):6.1f} ms  waiting {self.waiting:5d}"
            f"  {self.memory_mb:4.0f} MB  cpu {self.cpu_seconds:5.2f} s"
            f"  admin max {quantile(self.admin, 1.0):6.0f} ms{f'  {other}' if other else ''}"
        )


def quantile(seconds: Sequence[float], share: float) -> float:
    """In milliseconds."""
    return percentile(seconds, share) * 1000 if seconds else 0.0


def load_on(target: Target, ask: Ask) -> Load:
    """A load of plain calls by all keys."""
    request = requests(f"{target.host}:{target.port}", target.keys, chat_body(model_name(1, 0)))
    return Load(Subject("", target, request, ask))


async def closed_loop(target: Target, seconds: float) -> float:
    """Calls a second that so many clients get who ask again and again."""
    load = load_on(target, Ask(CLOSED_CONNECTIONS))
    await load.open()
    load.tallies.append(Tally())
    await asyncio.sleep(seconds)
    rate = load.tallies[-1].responses / seconds
    await load.close()
    return rate


async def stretch(
    target: Target, name: str, rate: float, seconds: float, *, pauses: bool = False
) -> Stretch:
    """Arrivals of this rate; with a pause the process stands still for two seconds of them."""
    load = load_on(target, Ask(OPEN_CONNECTIONS, rate=rate))
    await load.open()
    seen = Stretch(name, seconds, Tally())
    load.tallies.append(seen.tally)
    meanwhile = [asyncio.create_task(probe_admin(target, seen))]
    if pauses:
        meanwhile.append(asyncio.create_task(pause(target)))
    cpu, began = cpu_seconds(target.pid), time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        if now > len(seen.refusals) + 1:
            seen.at_first = seen.at_first or seen.tally.responses
            seen.refusals.append(len(seen.tally.refused) - sum(seen.refusals))
        seen.waiting = max(seen.waiting, load.waiting)
        await asyncio.sleep(TURN_SECONDS)
    seen.cpu_seconds, seen.memory_mb = cpu_seconds(target.pid) - cpu, resident_mb(target.pid)
    load.tallies.append(Tally())  # of those that are answered after the last request
    await load.close()
    for one in meanwhile:
        one.cancel()
    print(seen.line(), flush=True)
    return seen


async def burst(target: Target, count: int) -> None:
    """So many arrivals at one moment, on a process at rest: all of them are to be served."""
    load = load_on(target, Ask(count, rate=SELDOM))
    await load.open()
    tally, now = load.tallies[-1], time.perf_counter()
    for _ in range(count - 1):  # one has arrived by itself
        load.arrive(now)
    while load.waiting and time.perf_counter() < now + WAIT_SECONDS:
        await asyncio.sleep(TURN_SECONDS)
    await load.close()
    slowest = quantile(tally.seconds, 1.0)
    print(f"{count} at once: {tally.responses} served, all after {slowest:.0f} ms", flush=True)


async def pause(target: Target) -> None:
    """Let the process stand still for two seconds, after one."""
    await asyncio.sleep(1.0)
    os.kill(target.pid, signal.SIGSTOP)
    await asyncio.sleep(PAUSE_SECONDS)
    os.kill(target.pid, signal.SIGCONT)


async def probe_admin(target: Target, seen: Stretch) -> None:
    """Ask for health and metrics twice a second."""
    assert target.admin_url is not None
    parts = urlsplit(target.admin_url)
    while True:
        for path in ("/healthz", "/metrics"):
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
                await reader.read()
            finally:
                writer.close()
            seen.admin.append(time.perf_counter() - began)
        await asyncio.sleep(0.5)


async def attack(target: Target, *, times: float, seconds: float) -> None:
    await closed_loop(target, 2.0)  # warm
    most = max([await closed_loop(target, 3.0) for _ in range(2)])
    rated = RATED * most
    print(f"at most {most:.0f}/s in a closed loop, rated {rated:.0f}/s", flush=True)
    for count in (100, 500):
        await burst(target, count)
    light = await stretch(target, "a tenth", rated / 10, seconds / 2)
    full = await stretch(target, "rated", rated, seconds)
    over = await stretch(target, f"{times:g} times", times * rated, seconds)
    after = await stretch(target, "half, right after", rated / 2, seconds / 2)
    stood = await stretch(target, "half, with a pause", rated / 2, 8.0, pauses=True)
    call = full.cpu_seconds / max(1, full.tally.responses)
    spent = over.cpu_seconds - over.tally.responses * call
    print(f"goodput {over.goodput / rated:.0%} of rated, {over.goodput / most:.0%} of the most")
    p95 = [quantile(one.tally.seconds, 0.95) for one in (light, full, over)]
    print(f"p95 {p95[2] / p95[0]:.1f} times that of a tenth, {p95[2] / p95[1]:.1f} that of rated")
    later = quantile(over.tally.seconds[over.at_first :], 0.95)
    print(f"after its first second {later:.1f} ms: {later / p95[0]:.1f} and {later / p95[1]:.1f}")
    if refused := len(over.tally.refused):
        cost = spent / refused
        print(f"a refusal {cost * 1e6:.0f} us, {cost / call:.0%} of a call's {call * 1e6:.0f} us")
    print(f"refusals in each second after it: {after.refusals}")
    print(f"refusals in each second with a pause after the first: {stood.refusals}")


@session_kept()
def overload(times: float = 3.0, seconds: float = 10.0) -> None:
    """Start what is needed, each on its cores, and attack."""
    placement = place(available_cores())
    pin(os.getpid(), placement.load)
    known = models([(1, 0)])
    with (
        light_upstream(placement) as rig,
        gateway(
            rig.url, channels=CHANNELS, models=known, accounts=100, placement=placement
        ) as target,
    ):
        go_first([os.getpid(), rig.pid, target.pid, *tree(target.database_pid)])
        uvloop.run(attack(target, times=times, seconds=seconds))
