"""python -m loadtests.bench: CPU per call of the gateway, beside any other server in the same run.

    python -m loadtests.bench [--seconds 3] [--windows 5] [--connections 32]
                              [--front httptools|tornado]… [--against NAME=COMMAND@HOST:PORT]

COMMAND is started through the shell with {upstream_host} and {upstream_port} filled in, and must
serve POST /v1/chat/completions on HOST:PORT. Windows of the servers alternate, a window with one
failed answer does not count, figures are medians. CPU is the operating system's count for the
server's process tree, and for the gateway's PostgreSQL apart.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shlex
import socket
import subprocess
import time
from contextlib import ExitStack
from statistics import median

from gw.web.fronts import FRONTS
from loadtests.bench.client import Load, http_request
from loadtests.bench.machine import pin, tree_cpu_seconds
from loadtests.bench.rig import Target, cores, gateway, upstream

BODY = (
    b'{"model":"sim-model","messages":[{"role":"system","content":"You are a helpful assistant."},'
    b'{"role":"user","content":"Describe how a careful gateway counts what passes through it, '
    b'token by token, and never loses one on the way."}],"temperature":0.7,"max_tokens":256%b}'
)
WORK = {
    "plain": BODY % b"",
    "stream40": BODY % b',"stream":true,"sim":{"events":40}',
}
UPSTREAM_PORT_SECONDS = 30.0


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--against", action="append", default=[], metavar="NAME=COMMAND@HOST:PORT")
    parser.add_argument("--front", action="append", choices=sorted(FRONTS))
    options = parser.parse_args()
    options.front = options.front or sorted(FRONTS)
    count = len(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores()[1])
    with ExitStack() as stack:
        upstream_url = stack.enter_context(upstream())
        targets = [
            stack.enter_context(gateway(upstream_url, front=front)) for front in options.front
        ]
        targets += [stack.enter_context(_Other(text, upstream_url)) for text in options.against]
        print(f"{platform.python_implementation()} {platform.python_version()}, ", end="")
        print(f"{count} cores, {options.connections} connections")
        print(f"{'work':9} {'server':12} {'calls/s':>8} {'CPU ms':>8} {'PG ms':>7} ", end="")
        print(f"{'p50 ms':>7} {'p99 ms':>7} {'ratio':>6}")
        for name, body in WORK.items():
            asyncio.run(_measure(name, body, targets, options))


class _Other:
    """Another server, given as NAME=COMMAND@HOST:PORT."""

    def __init__(self, text: str, upstream_url: str) -> None:
        self._name, _, rest = text.partition("=")
        command, _, address = rest.rpartition("@")
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        host, _, upstream_port = upstream_url.removeprefix("http://").rpartition(":")
        self._command = command.format(upstream_host=host, upstream_port=upstream_port)

    def __enter__(self) -> Target:
        self._process = subprocess.Popen(shlex.split(self._command))
        deadline = time.monotonic() + UPSTREAM_PORT_SECONDS
        while not _is_listening(self._host, self._port):
            assert time.monotonic() < deadline, f"{self._name} does not listen"
            time.sleep(0.05)
        pin(self._process.pid, cores()[0])
        return Target(self._name, self._host, self._port, self._process.pid, keys=["bench"])

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()


def _is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


async def _measure(
    name: str, body: bytes, targets: list[Target], options: argparse.Namespace
) -> None:
    rows: dict[str, list[tuple[float, float, float, float, float]]] = {t.name: [] for t in targets}
    for _ in range(options.windows):
        for target in targets:
            row = await _window(body, target, options)
            if row is not None:
                rows[target.name].append(row)
    others = targets[len(options.front) :]
    base = [median(row[1] for row in rows[t.name]) for t in others if rows[t.name]]
    for target in targets:
        counted = rows[target.name]
        if not counted:
            print(f"{name:9} {target.name:12} every window had a failed answer")
            continue
        rate, cpu, pg, p50, p99 = (median(column) for column in zip(*counted, strict=True))
        ratio = f"{cpu / base[0]:6.2f}" if base else "     –"
        print(
            f"{name:9} {target.name:12} {rate:8.0f} {cpu:8.4f} {pg:7.4f} "
            f"{p50:7.2f} {p99:7.2f} {ratio}"
        )


async def _window(
    body: bytes, target: Target, options: argparse.Namespace
) -> tuple[float, float, float, float, float] | None:
    request = http_request(
        "/v1/chat/completions", target.host, body, {"Authorization": f"Bearer {target.key}"}
    )
    load = Load(target.host, target.port, request, options.connections)
    await load.start()
    await load.window(0.5)  # warm
    cpu, pg, began = _cpu(target), _pg(target), time.perf_counter()
    tally = await load.window(options.seconds)
    seconds = time.perf_counter() - began
    cpu, pg = _cpu(target) - cpu, _pg(target) - pg
    await load.stop()
    if tally.failures or not tally.answers:
        return None
    ordered = sorted(tally.latencies)
    return (
        tally.answers / seconds,
        cpu / tally.answers * 1000,
        pg / tally.answers * 1000,
        ordered[len(ordered) // 2] * 1000,
        ordered[int(len(ordered) * 0.99)] * 1000,
    )


def _cpu(target: Target) -> float:
    return tree_cpu_seconds(target.pid)


def _pg(target: Target) -> float:
    return tree_cpu_seconds(target.database_pid) if target.database_pid is not None else 0.0


if __name__ == "__main__":
    main()
