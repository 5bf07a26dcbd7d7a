"""The processes of a benchmark: a gateway with funded keys, its upstream, any other server.

The gateway is started as a user would start it, through its command line, on an embedded database
in a folder of its own; afterwards `gw ledger verify` must find nothing. What a process logs is
passed on to stderr.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from loadtests.bench.accounts import make_keys
from loadtests.bench.machine import children, pin, tree
from loadtests.bench.placement import Placement, available_cores, place

READY_SECONDS = 60.0
STOP_SECONDS = 60
SIMULATOR = "loadtests.simulator"
LIGHT_UPSTREAM = "loadtests.bench.upstream"
REFERENCE = "bare proxy"
RIG = "rig alone"
MAX_CONCURRENCY = 20_000


@dataclass(frozen=True)
class Model:
    """A model of the gateway: the channels that have it, and what it is called there."""

    id: str
    channels: Sequence[str]
    name_there: str | None = None


@dataclass(frozen=True)
class Target:
    """A server under test: where it is, whose CPU counts, which keys it takes."""

    name: str
    host: str
    port: int
    pid: int
    keys: Sequence[str]
    database_pid: int | None = None
    admin_url: str | None = None
    workers: Sequence[int] = ()  # its processes, where it is several
    is_rig: bool = False  # it surrounds the servers, and is asked to know what it costs itself

    @property
    def key(self) -> str:
        """One of the keys."""
        return self.keys[0]


@dataclass(frozen=True)
class Against:
    """Another server to measure in the same run: how it is started, and where it listens then."""

    name: str
    command: str
    url: str


@cache
def cores() -> tuple[set[int], set[int]]:
    """The core of the server under test, and those of everything else."""
    placement = place(available_cores())
    return set(placement.server), set(placement.rig)


def start(arguments: Sequence[str], cores: set[int]) -> tuple[subprocess.Popen[str], str]:
    """Start a Python module on these cores; return it with its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    pin(process.pid, cores)
    assert process.stderr is not None
    deadline = time.monotonic() + READY_SECONDS
    for line in process.stderr:
        if line.startswith("ready "):
            # A pipe that nobody reads would stop the process once it is full.
            threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True).start()
            return process, line.strip()
        sys.stderr.write(line)
        if time.monotonic() > deadline:
            break
    process.kill()
    raise SystemExit(f"{' '.join(arguments)} did not become ready")


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and wait for it."""
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=STOP_SECONDS)


def _pass_on(lines: IO[str]) -> None:
    with lines:
        for line in lines:
            sys.stderr.write(line)


@contextmanager
def upstream(options: Sequence[str] = ()) -> Iterator[str]:
    """The simulator; yields its address."""
    with _upstream(SIMULATOR, options, cores()[1]) as (_, url):
        yield url


@contextmanager
def light_upstream(placement: Placement) -> Iterator[Target]:
    """The upstream of canned bytes, as a target: asked without a server between."""
    with _upstream(LIGHT_UPSTREAM, (), set(placement.upstream)) as (process, url):
        host, port = _host_and_port(url)
        yield Target(RIG, host, port, process.pid, ["bench"], is_rig=True)


@contextmanager
def _upstream(
    module: str, options: Sequence[str], own: set[int]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process, ready = start([module, "--port", "0", *options], own)
    try:
        yield process, _word(ready, "listen")
    finally:
        stop(process)


@contextmanager
def gateway(
    upstream_url: str,
    *,
    channels: Sequence[str] | Mapping[str, str] = ("simulator",),
    models: Sequence[Model] = (),
    accounts: int = 1,
    processes: int = 1,
    placement: Placement | None = None,
    name: str = "gateway",
) -> Iterator[Target]:
    """A gateway with keys that will not run dry, one an account; verified when it has stopped.

    `channels` may say which protocol each speaks. Raises VerifyFailed.
    """
    where = placement or place(available_cores())
    with tempfile.TemporaryDirectory(prefix="gw-bench-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        config = folder / "gw.yaml"
        settings = _settings(folder, upstream_url, channels, models)
        config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        arguments = ["gw", "serve", "--config", str(config)]
        if processes > 1:
            arguments += ["--processes", str(processes)]
        process, ready = start(arguments, set(where.server))
        try:
            database = _postmaster(folder)
            for pid in tree(database):
                pin(pid, where.database)
            keys = asyncio.run(make_keys(config, accounts))
            host, port = _host_and_port(_word(ready, "listen"))
            admin_url = _word(ready, "admin")
            workers = children(process.pid) if processes > 1 else ()
            yield Target(name, host, port, process.pid, keys, database, admin_url, workers)
        finally:
            stop(process)
        verify(config)


def _settings(
    folder: Path,
    upstream_url: str,
    channels: Sequence[str] | Mapping[str, str],
    models: Sequence[Model],
) -> dict[str, Any]:
    spoken = channels if isinstance(channels, Mapping) else dict.fromkeys(channels, "chat")
    return {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "data_dir": str(folder / "var"),
        "channels": [
            {
                "id": name,
                "base_url": upstream_url,
                "api_key": name,
                "protocols": [protocol],
                "max_concurrency": MAX_CONCURRENCY,
                "health": {"failures": 100},
            }
            for name, protocol in spoken.items()
        ],
        "models": [
            {
                "id": model.id,
                "channels": [
                    {"id": one, "as": model.name_there or model.id} for one in model.channels
                ],
                "max_output_tokens": 1000,
                "price": {"input": "1", "output": "10", "cached_input": "0.1"},
            }
            for model in models or [Model("sim-model", list(spoken))]
        ],
    }


@contextmanager
def other_server(against: Against, upstream_url: str, placement: Placement) -> Iterator[Target]:
    """Any server that takes chat-completions; its command is told where the upstream is."""
    up_host, up_port = _host_and_port(upstream_url)
    host, port = _host_and_port(against.url)
    command = against.command.format(
        upstream_url=upstream_url,
        upstream_host=up_host,
        upstream_port=up_port,
        port=port,
    )
    process = subprocess.Popen(shlex.split(command))
    try:
        pin(process.pid, placement.server)
        deadline = time.monotonic() + READY_SECONDS
        while not _is_listening(host, port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{against.name} does not listen on {against.url}")
            time.sleep(0.05)
        yield Target(against.name, host, port, process.pid, ["bench"])
    finally:
        process.terminate()
        process.wait(timeout=STOP_SECONDS)


def reference() -> Against:
    """The project's own bare proxy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = f"{shlex.quote(sys.executable)} -m loadtests.bench.reference {port}"
    return Against(
        REFERENCE,
        command + " {upstream_host} {upstream_port}",
        f"http://127.0.0.1:{port}",
    )


def _is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


class VerifyFailed(Exception):
    """`gw ledger verify` found something."""


def verify(config: Path | str) -> None:
    """Print what `gw ledger verify` says. Raises VerifyFailed."""
    try:
        report = _gw(config, "ledger", "verify")
    except subprocess.CalledProcessError as error:
        raise VerifyFailed(error.stdout) from error
    print(f"gw ledger verify: {report['counts']}")


def _gw(config: Path | str, *arguments: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gw", *arguments, "--config", str(config), "--json"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _word(ready: str, name: str) -> str:
    return ready.partition(f"{name}=")[2].split()[0]


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return parts.hostname, parts.port


def _postmaster(folder: Path) -> int:
    (pid_file,) = (folder / "var").rglob("postmaster.pid")
    return int(pid_file.read_text().split("\n", 1)[0])
