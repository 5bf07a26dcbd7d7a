"""Measure both clients: `python -m loadtests.http2`. See the package for what it needs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import ssl
import subprocess
import sys
import tempfile
import time
from asyncio import Future
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from channels.http.client import HttpWire
from channels.http.interfaces import UpstreamRequest, Wire
from loadtests.http2.client import Http2Wire
from loadtests.http2.upstream import serve
from loadtests.rig.machine import resident_mb

BODY = b'{"model":"m","messages":[{"role":"user","content":"%s"}]}' % (b"Hello. " * 40)
HEADERS = (
    ("content-type", "application/json"),
    ("authorization", "Bearer sk-0123456789abcdef0123456789abcdef"),
)
PLAIN_CALLS, PLAIN_AT_ONCE = 6_000, 32
STREAMS = (
    (200, 100, 0.05),
    (200, 10, 1.0),
    (1000, 20, 0.25),
)  # at once, events each, seconds between them
ROUNDS = 3
PAUSE_SECONDS = 15.0  # within which all streams are opened
# Name, protocol, and streams a connection: common servers allow 100 to 128.
CLIENTS = (
    ("HTTP/1.1", "http/1.1", 0),
    ("HTTP/2", "h2", 100),
    ("HTTP/2, one connection", "h2", 10_000),
    ("HTTP/1.1 without TLS", "plain", 0),
)


class EventCounter:
    """A sink that does nothing else."""

    is_over = False
    events = 0

    def take(self, piece: bytes) -> Future[None] | None:
        self.events += piece.count(b"\n\n")
        return None


class Run:
    """One client in a process of its own."""

    def __init__(self, pem: str, protocol: str, port: int, streams_max: int) -> None:
        scheme = "http" if protocol == "plain" else "https"
        self._url = f"{scheme}://localhost:{port}"
        tls = ssl.create_default_context(cafile=pem)
        tls.set_alpn_protocols([protocol])
        self._wire: Wire
        if streams_max:
            self._wire = Http2Wire(tls=tls, streams_max=streams_max)
        else:
            self._wire = HttpWire(connect_seconds=60, tls=lambda: tls)

    async def _plain(self, calls: int) -> None:
        for _ in range(calls):
            await self._call()

    async def _call(self) -> None:
        request = UpstreamRequest("POST", f"{self._url}/plain", HEADERS, BODY)
        response = await self._wire.open(request)
        assert len(await response.read(10_000)) > 100

    async def plain(self) -> dict[str, float]:
        """Calls on connections that are there: CPU of each in µs."""
        await asyncio.gather(*(self._plain(20) for _ in range(PLAIN_AT_ONCE)))
        began = time.process_time()
        await asyncio.gather(
            *(self._plain(PLAIN_CALLS // PLAIN_AT_ONCE) for _ in range(PLAIN_AT_ONCE))
        )
        return {"plain call, µs": (time.process_time() - began) / PLAIN_CALLS * 1e6}

    async def streams(self, count: int, events: int, seconds: float) -> dict[str, float]:
        """Streams opened at once by a client without connections, then read to their end."""
        await self._call()  # what is made once, whatever the load
        before, began, at = resident_mb(os.getpid()), time.process_time(), time.monotonic()
        url = f"{self._url}/stream/{events}/{seconds}/{PAUSE_SECONDS}"
        request = UpstreamRequest("POST", url, HEADERS, BODY)
        responses = await asyncio.gather(*(self._wire.open(request) for _ in range(count)))
        open_seconds, opened = time.monotonic() - at, time.process_time()
        assert open_seconds < PAUSE_SECONDS, "some streams began before all were open"
        held = resident_mb(os.getpid()) - before
        sink = EventCounter()
        await asyncio.gather(*(response.pour(sink) for response in responses))
        assert sink.events == count * events
        rate = f"{count / seconds:,.0f} events a second"
        return {
            f"{count} opened cold, µs each": (opened - began) / count * 1e6,
            f"{count} opened cold, s": open_seconds,
            f"{count} open, KB each": held / count * 1e3,
            f"{count} open, {rate}, µs an event": (time.process_time() - opened)
            / sink.events
            * 1e6,
            f"{count} open, connections": len(getattr(self._wire, "dialed", responses)),
        }


def measure(
    pem: str, protocol: str, port: int, streams_max: int, work: tuple[Any, ...], found: Any
) -> None:
    """Do one piece of work; the figures go into a pipe."""

    async def run() -> dict[str, float]:
        one = Run(pem, protocol, port, streams_max)
        doing: Coroutine[Any, Any, dict[str, float]] = one.streams(*work) if work else one.plain()
        return await doing

    found.send(uvloop.run(run()))


def main() -> None:
    """All work with all clients, three times over by turns; the least of each figure counts."""
    spawn = multiprocessing.get_context("spawn")
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        pem = str(Path(folder, "localhost.pem"))
        subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509")
        made = ("openssl", "req", *new, *subject, "-days", "2", "-keyout", pem, "-out", pem + "c")
        subprocess.run(made, check=True, capture_output=True)
        with open(pem, "a", encoding="ascii") as both:
            both.write(Path(pem + "c").read_text(encoding="ascii"))
        ours, theirs = spawn.Pipe()
        upstream = spawn.Process(target=serve, args=(pem, theirs), daemon=True)
        upstream.start()
        ports = ours.recv()
        for _ in range(ROUNDS):
            for work in ((), *STREAMS):
                for name, protocol, streams_max in CLIENTS:
                    arguments = (pem, protocol, ports[protocol], streams_max, work, theirs)
                    client = spawn.Process(target=measure, args=arguments)
                    client.start()
                    client.join()
                    assert client.exitcode == 0
                    for figure, value in ours.recv().items():
                        row = figures.setdefault(figure, {})
                        row[name] = min(value, row.get(name, value))
            _show(figures)
        upstream.terminate()
        upstream.join()


def _show(figures: dict[str, dict[str, float]]) -> None:
    print("\n| |", " | ".join(name for name, _, _ in CLIENTS), "|")
    print("| --- |" + " --- |" * len(CLIENTS))
    for figure, row in figures.items():
        print(f"| {figure} |", " | ".join(f"{row[name]:.4g}" for name, _, _ in CLIENTS), "|")
    sys.stdout.flush()
