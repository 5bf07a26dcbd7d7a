"""What open jobs cost the path of calls, and what a poll costs.

    python -m loadtests.jobs [--open 10000] [--seconds 10] [--rounds 3]

One gateway on an embedded database, its calls and its polls answered by canned upstreams. Windows
take turns: calls without and with polling, then polling alone and nothing at all. What is compared
is calls a second, and calls for each second of the gateway's CPU, which other work on the machine
does not move; `gw ledger verify` closes the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from actors.store.database import Database
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.queries import load
from loadtests.bench.canned import FIRST_EVENTS, chat_body, model_name, requests
from loadtests.rig.accounts import make_keys
from loadtests.rig.machine import cpu_seconds, of_tree
from loadtests.rig.placement import available_cores, place
from loadtests.rig.processes import light_upstream, started

SQL = load("loadtests.jobs", "fill.sql")
CONNECTIONS = 24
WARM_UP_SECONDS = 3.0
MODEL = model_name(FIRST_EVENTS, 0)  # of a plain answer


@dataclass(frozen=True)
class Window:
    """What happened in some seconds: calls, polls, CPU seconds of gateway and PostgreSQL."""

    seconds: float
    calls: int
    polls: float
    gateway: float
    database: float


@dataclass
class Bench:
    """A running gateway, and whom to ask of it."""

    host: str
    port: int
    admin: str
    key: str
    gateway_pid: int
    database_pid: int
    database: Database
    calls: int = 0

    async def call_again_and_again(self) -> None:
        """One connection that is kept busy."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        (request,) = requests("bench", [self.key], chat_body(MODEL))
        try:
            while True:
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert head.startswith(b"http/1.1 200"), head
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.calls += 1
        finally:
            writer.close()

    async def window(self, seconds: float) -> Window:
        """Let so many seconds go by."""
        before, started_at = await self._read(), time.monotonic()
        await asyncio.sleep(seconds)
        took, after = time.monotonic() - started_at, await self._read()
        calls, polls, gateway, database = (b - a for a, b in zip(before, after, strict=True))
        return Window(took, int(calls), polls, gateway, database)

    async def _read(self) -> tuple[float, float, float, float]:
        polls = await asyncio.to_thread(self._polls)
        return (
            self.calls,
            polls,
            cpu_seconds(self.gateway_pid),
            of_tree(cpu_seconds, self.database_pid),
        )

    def _polls(self) -> float:
        with urllib.request.urlopen(f"{self.admin}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        counted = [line for line in lines if line.startswith("gw_task_polls_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in counted)


async def measure(bench: Bench, *, seconds: float, rounds: int) -> dict[str, list[Window]]:
    """Windows of each sort, in turns."""
    sorts = ("calls", "calls and polls", "polls", "nothing")
    found: dict[str, list[Window]] = {sort: [] for sort in sorts}
    callers = [asyncio.create_task(bench.call_again_and_again()) for _ in range(CONNECTIONS)]
    for _ in range(rounds):
        for sort, sql in (("calls", "rest"), ("calls and polls", "poll")):
            await bench.database.execute(SQL[sql])
            await bench.window(WARM_UP_SECONDS)
            found[sort].append(await bench.window(seconds))
    for caller in callers:
        if caller.done():
            caller.result()  # raises what went wrong with it
        caller.cancel()
    await asyncio.wait(callers)
    for sort, sql in (("nothing", "rest"), ("polls", "poll"), ("nothing", "rest")):
        await bench.database.execute(SQL[sql])
        await bench.window(2 * WARM_UP_SECONDS)
        found[sort].append(await bench.window(seconds))
    return found


def report(found: dict[str, list[Window]], count: int) -> str:
    """The figures, one line each."""

    def middle(values: Sequence[float]) -> float:
        return statistics.median(values)

    plain, busy = found["calls"], found["calls and polls"]
    (polls,), nothing = found["polls"], found["nothing"]
    rate = [middle([w.calls / w.seconds for w in windows]) for windows in (plain, busy)]
    per_cpu = [middle([w.calls / w.gateway for w in windows]) for windows in (plain, busy)]
    cost = [
        (used - min(rest) * polls.seconds) / polls.polls * 1e6
        for used, rest in (
            (polls.gateway, [w.gateway / w.seconds for w in nothing]),
            (polls.database, [w.database / w.seconds for w in nothing]),
        )
    ]
    beside = middle([w.polls / w.seconds for w in busy])
    lines = (
        f"{count} open tasks, {CONNECTIONS} connections, medians of {len(plain)} windows",
        f"calls a second:              {_compared(rate)}",
        f"calls a CPU second of ours:  {_compared(per_cpu)}",
        f"polls a second beside calls: {beside:.0f}, alone {polls.polls / polls.seconds:.0f}",
        f"CPU of a poll, alone:        {cost[0]:.0f} us gateway, {cost[1]:.0f} us PostgreSQL",
    )
    return "\n".join(lines)


def _compared(pair: Sequence[float]) -> str:
    without, with_polls = pair
    change = with_polls / without - 1
    return f"{without:.0f} without polls, {with_polls:.0f} with ({change:+.1%})"


def settings(folder: Path, chat_url: str, media_url: str) -> dict[str, Any]:
    """A gateway with a chat channel and one that makes films."""

    def channel(name: str, url: str, protocol: str) -> dict[str, Any]:
        return {"id": name, "base_url": url, "api_key": name, "protocols": [protocol]}

    return {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "data_dir": str(folder / "var"),
        "shed_delay_ms": 0,
        "channels": [channel("chat", chat_url, "chat"), channel("film", media_url, "videos")],
        "models": [
            {
                "id": MODEL,
                "channels": ["chat"],
                "max_output_tokens": 1000,
                "price": {"input": "1", "output": "10"},
            }
        ],
    }


async def run(config: Path, words: dict[str, str], pid: int, options: argparse.Namespace) -> str:
    """Fill the database and measure."""
    (pid_file,) = config.parent.rglob("postmaster.pid")
    database_pid = int(pid_file.read_text().split("\n", 1)[0])
    embedded = EmbeddedPostgres(config.parent / "var")
    dsn = await embedded.start()
    try:
        async with Database(dsn, size=1, statement_seconds=600.0) as database:
            (key,) = await make_keys(config, 1)
            await database.execute(SQL["open_jobs"], {"count": options.open})
            await database.execute(SQL["analyze"])
            host, _, port = words["listen"].removeprefix("http://").rpartition(":")
            bench = Bench(host, int(port), words["admin"], key, pid, database_pid, database)
            found = await measure(bench, seconds=options.seconds, rounds=options.rounds)
            return report(found, options.open)
    finally:
        await embedded.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtests.jobs")
    parser.add_argument("--open", type=int, default=10_000, help="jobs that are open (10000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of one window (10)")
    parser.add_argument("--rounds", type=int, default=3, help="windows of either sort (3)")
    options = parser.parse_args()
    placement = place(available_cores())
    with (
        tempfile.TemporaryDirectory(prefix="gw-jobs-") as text,
        light_upstream(placement) as chat,
        started(["loadtests.jobs.upstream"], placement.upstream) as (_, media),
    ):
        folder = Path(text)
        folder.chmod(0o711)
        config = folder / "gw.yaml"
        config.write_text(json.dumps(settings(folder, chat.url, media["listen"])))
        arguments = ["gw", "serve", "--config", str(config)]
        with (
            started(arguments, placement.server) as (pid, words),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            print(runner.run(run(config, dict(words), pid, options)))
        verify = [sys.executable, "-m", "gw", "ledger", "verify", "--config", str(config)]
        subprocess.run(verify, check=True, stdout=subprocess.DEVNULL, env=os.environ)


if __name__ == "__main__":
    main()
