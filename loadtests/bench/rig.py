"""The processes of a benchmark: a gateway with funded keys, its upstream, any other server.

The gateway is started as a user would start it, through its command line, on an embedded database
in a folder of its own; afterwards `gw ledger verify` must find nothing. What a process logs is
passed on to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from gw.web.fronts import DEFAULT_FRONT, Front

READY_SECONDS = 60.0

CONFIG = """\
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
data_dir: {folder}/var
channels:
{channels}
models:
  - id: sim-model
    channels: [{names}]
    max_output_tokens: 1000
    price: {{input: "1", output: "10", cached_input: "0.1"}}
"""
CHANNEL = """\
  - id: {name}
    base_url: {upstream}
    api_key: {name}
    protocols: [chat]
    max_concurrency: 20000
    health: {{failures: 100}}"""


@dataclass(frozen=True)
class Target:
    """A server under test: where it is, whose CPU counts, which keys it takes."""

    name: str
    host: str
    port: int
    pid: int
    keys: Sequence[str]
    database_pid: int | None = None

    @property
    def key(self) -> str:
        """One of the keys."""
        return self.keys[0]


@cache
def cores() -> tuple[set[int], set[int]]:
    """The core of the server under test, and those of everything else.

    Asked once, before this process keeps itself to the latter.
    """
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        return set(available), set(available)
    return {available[0]}, set(available[1:])


def start(arguments: Sequence[str], cores: set[int]) -> tuple[subprocess.Popen[str], str]:
    """Start a Python module on these cores; return it with its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
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
    process.wait(timeout=60)


def _pass_on(lines: IO[str]) -> None:
    with lines:
        for line in lines:
            sys.stderr.write(line)


@contextmanager
def upstream(options: Sequence[str] = ()) -> Iterator[str]:
    """The simulator; yields its address."""
    process, ready = start(["loadtests.simulator", "--port", "0", *options], cores()[1])
    try:
        yield ready.partition("listen=")[2].split()[0]
    finally:
        stop(process)


@contextmanager
def gateway(
    upstream_url: str,
    *,
    channels: Sequence[str] = ("simulator",),
    accounts: int = 1,
    front: Front = DEFAULT_FRONT,
) -> Iterator[Target]:
    """A gateway with keys that will not run dry, one an account; verified when it has stopped.

    Raises VerifyFailed.
    """
    with tempfile.TemporaryDirectory(prefix="gw-bench-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        config = folder / "gw.yaml"
        written = [CHANNEL.format(name=name, upstream=upstream_url) for name in channels]
        config.write_text(
            CONFIG.format(folder=folder, channels="\n".join(written), names=", ".join(channels)),
            encoding="utf-8",
        )
        own, others = cores()
        arguments = ["gw", "serve", "--config", str(config), "--front", front]
        process, ready = start(arguments, own)
        try:
            with ThreadPoolExecutor(len(others)) as pool:
                keys = list(pool.map(lambda _: _new_key(config), range(accounts)))
            url = ready.partition("listen=")[2].split()[0]
            host, _, port = url.removeprefix("http://").rpartition(":")
            database = _postmaster(folder)
            for pid in [database, *_children(database)]:
                os.sched_setaffinity(pid, others)
            yield Target(f"gw {front}", host, int(port), process.pid, keys, database)
        finally:
            stop(process)
        verify(config)


class VerifyFailed(Exception):
    """`gw ledger verify` found something."""


def verify(config: Path | str) -> None:
    """Print what `gw ledger verify` says. Raises VerifyFailed."""
    try:
        report = _gw(config, "ledger", "verify")
    except subprocess.CalledProcessError as error:
        raise VerifyFailed(error.stdout) from error
    print(f"gw ledger verify: {report['counts']}")


def _new_key(config: Path) -> str:
    account = _gw(config, "account", "create", "bench", "--credit-usd", "1000000")
    return _gw(config, "key", "create", "--account", account["id"], "--name", "bench")["key"]


def _gw(config: Path | str, *arguments: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gw", *arguments, "--config", str(config), "--json"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _postmaster(folder: Path) -> int:
    (pid_file,) = (folder / "var").rglob("postmaster.pid")
    return int(pid_file.read_text().split("\n", 1)[0])


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]
