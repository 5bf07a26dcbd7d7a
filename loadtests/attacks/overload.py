"""Three times the rated load: python -m loadtests.attacks.overload [--times 3] [--seconds 10].

Starts a gateway with its database and the upstream of canned bytes, each on the cores that the
benchmark gives them, and finds what the gateway can do at most (a closed loop). Its rated load is
four fifths of that. Then arrivals come by the clock, whatever becomes of them: at a tenth of the
rated load, at the rated load, at so many times of it, and at half of it, once with a pause of the
process. Latencies count from when a request was due. Prints one line for each, what becomes of some
hundred calls at one moment, and what a refusal cost beside a call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import uvloop

from loadtests.bench.upstream import CHANNELS, chat_body, model_name, models, requests
from loadtests.rig.machine import (
    available_cores,
    cpu_seconds,
    go_first,
    pin,
    place,
    resident_mb,
    tree,
)
from loadtests.rig.processes import Target, gateway, light_upstream

RATED = 0.8  # of what it can do at most
CLOSED_CONNECTIONS = 64
OPEN_MAX = 4000  # connections of the open loop; what finds none of them free is not sent
WAIT_SECONDS = 20.0  # for answers after the last request
PAUSE_SECONDS = 2.0
TURN_SECONDS = 0.001


@dataclass
class Seen:
    """What became of the requests of one stretch. Times in seconds."""

    name: str
    seconds: float = 0.0
    sent: int = 0
    unsent: int = 0
    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    served_at_first: int = 0  # of them in the first second
    other: dict[str, int] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    open_calls: int = 0
    admin: list[float] = field(default_factory=list)
    refusals_by_second: list[int] = field(default_factory=list)

    @property
    def goodput(self) -> float:
        return len(self.served) / self.seconds

    def line(self) -> str:
        asked = self.sent + self.unsent
        return (
            f"{self.name:<24} offered {asked / self.seconds:6.0f}/s  served {self.goodput:6.0f}/s"
            f"  p50 {quantile(self.served, 0.5):7.1f} p95 {quantile(self.served, 0.95):7.1f} ms"
            f"  refused {len(self.refused):6d} p95 {quantile(self.refused, 0.95):6.1f}"
            f" p99 {quantile(self.refused, 0.99):6.1f} ms"
            f"  open {self.open_calls:5d}  {self.memory_mb:4.0f} MB  cpu {self.cpu_seconds:5.2f} s"
            f"  admin max {quantile(self.admin, 1.0):6.0f} ms"
            f"{'  unsent ' + str(self.unsent) if self.unsent else ''}"
            f"{'  ' + str(self.other) if self.other else ''}"
        )


def quantile(seconds: Sequence[float], share: float) -> float:
    """In milliseconds."""
    if not seconds:
        return 0.0
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))] * 1000


class Connection(asyncio.Protocol):
    """One client; it is free again when its answer is whole."""

    _transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self._load = load
        self._due = 0.0
        self._read = b""
        self._is_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, request: bytes, due: float) -> None:
        self._due, self._read, self._is_asked = due, b"", True
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, body = self._read.partition(b"\r\n\r\n")
        if not found or not self._is_asked:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        if len(body) < length:
            return
        self._is_asked = False
        self._load.answered(head[9:12].decode(), time.perf_counter() - self._due, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost(self, is_asked=self._is_asked)

    def close(self) -> None:
        self._transport.close()


class Load:
    """Requests and their connections."""

    def __init__(self, target: Target, *, keeps: bool) -> None:
        body = chat_body(model_name(1, 0))
        self._requests = requests(f"{target.host}:{target.port}", target.keys, body)
        self._target = target
        self._keeps = keeps
        self._free: deque[Connection] = deque()
        self._open = 0
        self._next = 0
        self.waiting = 0
        self.seen = Seen("")
        self.asks_again = False  # each connection as soon as it has its answer
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self) -> bytes:
        self._next += 1
        return self._requests[self._next % len(self._requests)]

    def send(self, due: float) -> None:
        """One request, on a connection that is free or on a new one."""
        if self._keeps and self._free:
            self.seen.sent += 1
            self.waiting += 1
            self._free.pop().ask(self.request(), due)
        elif self._open < OPEN_MAX:
            self.seen.sent += 1
            self.waiting += 1
            self._open += 1
            task = asyncio.get_running_loop().create_task(self._connect(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self.seen.unsent += 1

    async def _connect(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, made = await loop.create_connection(
                lambda: Connection(self), self._target.host, self._target.port
            )
        except OSError as error:
            self._open -= 1
            self.waiting -= 1
            self._other(type(error).__name__)
            return
        made.ask(self.request(), due)

    def answered(self, status: str, seconds: float, connection: Connection) -> None:
        self.waiting -= 1
        if status == "200":
            self.seen.served.append(seconds)
        elif status == "503":
            self.seen.refused.append(seconds)
        else:
            self._other(status)
        if self.asks_again:
            self.waiting += 1
            connection.ask(self.request(), time.perf_counter())
        elif self._keeps:
            self._free.append(connection)
        else:
            connection.close()

    def lost(self, connection: Connection, *, is_asked: bool) -> None:
        self._open -= 1
        if is_asked:
            self.waiting -= 1
            self._other("lost")
        elif connection in self._free:
            self._free.remove(connection)

    def _other(self, what: str) -> None:
        self.seen.other[what] = self.seen.other.get(what, 0) + 1

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


async def closed_loop(target: Target, seconds: float) -> float:
    """Calls a second that so many clients get who ask again and again."""
    load = Load(target, keeps=True)
    load.asks_again = True
    began = time.perf_counter()
    for _ in range(CLOSED_CONNECTIONS):
        load.send(began)
    await asyncio.sleep(seconds)
    rate = len(load.seen.served) / (time.perf_counter() - began)
    load.asks_again = False
    await drained(load)
    return rate


async def drained(load: Load) -> None:
    end = time.perf_counter() + WAIT_SECONDS
    while load.waiting and time.perf_counter() < end:
        await asyncio.sleep(0.01)
    load.close()


async def open_loop(target: Target, name: str, rate: float, seconds: float, *, keeps: bool) -> Seen:
    """Arrivals by the clock."""
    load = Load(target, keeps=keeps)
    seen = load.seen = Seen(name, seconds=seconds)
    probing = asyncio.create_task(probe_admin(target, seen))
    cpu = cpu_seconds(target.pid)
    began = time.perf_counter()
    due_count, refused = 0, 0
    while (now := time.perf_counter() - began) < seconds:
        while due_count < now * rate:
            load.send(began + due_count / rate)
            due_count += 1
        if now > len(seen.refusals_by_second) + 1:
            seen.served_at_first = seen.served_at_first or len(seen.served)
            seen.refusals_by_second.append(len(seen.refused) - refused)
            refused = len(seen.refused)
        seen.open_calls = max(seen.open_calls, load.waiting - 0)
        await asyncio.sleep(TURN_SECONDS)
    seen.cpu_seconds = cpu_seconds(target.pid) - cpu
    seen.memory_mb = resident_mb(target.pid)
    served = len(seen.served)
    await drained(load)
    del seen.served[served:]  # those were answered after the last request
    probing.cancel()
    print(seen.line(), flush=True)
    return seen


async def burst(target: Target, count: int, *, keeps: bool) -> None:
    """So many arrivals at one moment, on a process at rest: all of them are to be served."""
    load = Load(target, keeps=keeps)
    began = time.perf_counter()
    for _ in range(count):
        load.send(began)
    await drained(load)
    seen = load.seen
    slowest = quantile(seen.served, 1.0)
    print(f"{count} at once: {len(seen.served)} served, all after {slowest:.0f} ms", flush=True)


async def paused(target: Target, rate: float, *, keeps: bool) -> Seen:
    """Arrivals go on while the process stands still for two seconds."""

    async def pause() -> None:
        await asyncio.sleep(1.0)
        os.kill(target.pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE_SECONDS)
        os.kill(target.pid, signal.SIGCONT)

    pausing = asyncio.create_task(pause())
    seen = await open_loop(target, "half, with a pause", rate, 8.0, keeps=keeps)
    await pausing
    return seen


async def probe_admin(target: Target, seen: Seen) -> None:
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


async def attack(target: Target, *, times: float, seconds: float, keeps: bool) -> None:
    await closed_loop(target, 2.0)  # warm
    most = max([await closed_loop(target, 3.0) for _ in range(2)])
    rated = RATED * most
    print(f"at most {most:.0f}/s in a closed loop, rated {rated:.0f}/s", flush=True)
    for count in (100, 500):
        await burst(target, count, keeps=keeps)
    light = await open_loop(target, "a tenth", rated / 10, seconds / 2, keeps=keeps)
    full = await open_loop(target, "rated", rated, seconds, keeps=keeps)
    over = await open_loop(target, f"{times:g} times", times * rated, seconds, keeps=keeps)
    after = await open_loop(target, "half, right after", rated / 2, seconds / 2, keeps=keeps)
    stood = await paused(target, rated / 2, keeps=keeps)
    call = full.cpu_seconds / max(1, len(full.served))
    spent = over.cpu_seconds - len(over.served) * call
    print(f"goodput {over.goodput / rated:.0%} of rated, {over.goodput / most:.0%} of the most")
    p95 = [quantile(one.served, 0.95) for one in (light, full, over)]
    print(f"p95 {p95[2] / p95[0]:.1f} times that of a tenth, {p95[2] / p95[1]:.1f} that of rated")
    later = quantile(over.served[over.served_at_first :], 0.95)
    print(f"after its first second {later:.1f} ms: {later / p95[0]:.1f} and {later / p95[1]:.1f}")
    if over.refused:
        cost = spent / len(over.refused)
        print(f"a refusal {cost * 1e6:.0f} us, {cost / call:.0%} of a call's {call * 1e6:.0f} us")
    print(f"refusals in each second after it: {after.refusals_by_second}")
    print(f"refusals in each second with a pause after the first: {stood.refusals_by_second}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--new-connections", action="store_true", help="one for each request")
    options = parser.parse_args()
    placement = place(available_cores())
    pin(os.getpid(), placement.load)
    shapes = models([(1, 0)])
    with (
        light_upstream(placement) as rig,
        gateway(
            f"http://{rig.host}:{rig.port}",
            channels=CHANNELS,
            models=shapes,
            accounts=100,
            placement=placement,
        ) as target,
    ):
        go_first([os.getpid(), rig.pid, target.pid, *tree(target.database_pid or 0)])
        uvloop.run(
            attack(
                target,
                times=options.times,
                seconds=options.seconds,
                keeps=not options.new_connections,
            )
        )


if __name__ == "__main__":
    main()
