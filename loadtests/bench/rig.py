"""The processes of a benchmark: a gateway with funded keys, its upstream, any other server.

The gateway is started as a user would start it, through its command line, on an embedded database
in a folder of its own; afterwards `gw ledger verify` must find nothing. What a process logs is
passed on to stderr.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadtests.bench.accounts import make_keys
from loadtests.bench.machine import children, pin, tree
from loadtests.bench.placement import Cores, Placement, available_cores, place

GATEWAY, REFERENCE, RIG = "gateway", "bare proxy", "rig alone"
READY_SECONDS = 60.0
STOP_SECONDS = 60
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

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True)
class Rig:
    """What surrounds the server under test: the upstream, and this process, which is the load."""

    upstream: Target
    cores: int  # that it has, beside the server's


@dataclass(frozen=True)
class Against:
    """Another server to measure in the same run: how it is started, and where it listens then."""

    name: str
    command: str
    url: str


class VerifyFailed(Exception):
    """`gw ledger verify` found something."""


@contextmanager
def started(arguments: Sequence[str], cores: Cores) -> Iterator[tuple[int, Mapping[str, str]]]:
    """A Python module on these cores, to its end; yields its pid and the words it is ready with."""
    with _process([sys.executable, "-m", *arguments], cores, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + READY_SECONDS
        ready = ""
        while not ready.startswith("ready "):
            sys.stderr.write(ready)
            ready = process.stderr.readline()
            if not ready or time.monotonic() > deadline:
                raise SystemExit(f"{' '.join(arguments)} did not become ready")
        # A pipe that nobody reads would stop the process once it is full.
        reader = threading.Thread(target=sys.stderr.writelines, args=(process.stderr,), daemon=True)
        reader.start()
        yield process.pid, dict(word.split("=", 1) for word in ready.split() if "=" in word)
    reader.join()


@contextmanager
def _process(
    command: Sequence[str], cores: Cores, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stderr=stderr, text=True)
    try:
        pin(process.pid, cores)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=STOP_SECONDS)


@contextmanager
def light_upstream(placement: Placement) -> Iterator[Target]:
    """The upstream of canned bytes, as a target: asked without a server between."""
    with started(["loadtests.bench.upstream"], placement.upstream) as (pid, words):
        yield Target(RIG, *_host_and_port(words["listen"]), pid, ["bench"])


@contextmanager
def gateway(
    upstream_url: str,
    *,
    channels: Mapping[str, str],
    models: Sequence[Model] = (),
    accounts: int = 1,
    processes: int = 1,
    placement: Placement | None = None,
    name: str = GATEWAY,
) -> Iterator[Target]:
    """A gateway with keys that will not run dry, one an account; verified when it has stopped.

    `channels` says which protocol each speaks. Raises VerifyFailed.
    """
    where = placement or place(available_cores())
    with tempfile.TemporaryDirectory(prefix="gw-bench-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        config = folder / "gw.yaml"
        settings = _settings(folder, upstream_url, channels, models)
        config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        several = ["--processes", str(processes)] if processes > 1 else []
        serve = ["gw", "serve", "--config", str(config), *several]
        with started(serve, where.server) as (pid, words):
            (pid_file,) = (folder / "var").rglob("postmaster.pid")
            database = int(pid_file.read_text().split("\n", 1)[0])
            for one in tree(database):
                pin(one, where.database)
            keys = asyncio.run(make_keys(config, accounts))
            workers = children(pid) if several else ()
            at = _host_and_port(words["listen"])
            yield Target(name, *at, pid, keys, database, words["admin"], workers)
        verify(config)


def _settings(
    folder: Path, upstream_url: str, channels: Mapping[str, str], models: Sequence[Model]
) -> dict[str, Any]:
    channel: dict[str, Any] = {"base_url": upstream_url, "max_concurrency": MAX_CONCURRENCY}
    channel |= {"health": {"failures": 100}}
    model: dict[str, Any] = {"max_output_tokens": 1000}
    model |= {"price": {"input": "1", "output": "10", "cached_input": "0.1"}}
    return {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "data_dir": str(folder / "var"),
        "channels": [
            {"id": name, "api_key": name, "protocols": [protocol], **channel}
            for name, protocol in channels.items()
        ],
        "models": [
            {
                "id": one.id,
                "channels": [{"id": each, "as": one.name_there or one.id} for each in one.channels],
                **model,
            }
            for one in models or [Model("sim-model", list(channels))]
        ],
    }


@contextmanager
def other_server(against: Against, upstream: Target, placement: Placement) -> Iterator[Target]:
    """Any server that takes chat-completions; its command is told where the upstream is."""
    host, port = _host_and_port(against.url)
    there = {"upstream_host": upstream.host, "upstream_port": upstream.port}
    command = against.command.format(upstream_url=upstream.url, port=port, **there)
    with _process(shlex.split(command), placement.server) as process:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_listening(host, port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{against.name} does not listen on {against.url}")
            time.sleep(0.05)
        yield Target(against.name, host, port, process.pid, ["bench"])


def reference() -> Against:
    """The project's own bare proxy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    command = f"{shlex.quote(sys.executable)} -m loadtests.bench.reference "
    return Against(REFERENCE, command + "{port} {upstream_host} {upstream_port}", url)


def verify(config: Path | str) -> None:
    """Print what `gw ledger verify` says. Raises VerifyFailed."""
    command = [sys.executable, "-m", "gw", "ledger", "verify", "--config", str(config), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        raise VerifyFailed(done.stdout)
    print(f"gw ledger verify: {json.loads(done.stdout)['counts']}")


def _is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return parts.hostname, parts.port
