"""Other gateways that are measured beside ours: each is installed into a folder of its own.

A peer is given what it needs to do the same calls, and nothing that it can do without: no limit of
requests, no log of calls, nothing that it keeps.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadtests.bench.upstream import MESSAGES, model_name
from loadtests.rig.site import Host
from loadtests.rig.targets import Against

FERROGW = "ferrogw==1.5.10"
KEY = "bench"  # that the load has for every server but ours


def ferrogw(host: Host, shapes: Sequence[tuple[int, int]]) -> Against:
    """A gateway in Go, for models of these shapes. It knows prices offline, and takes no money.

    By default it refuses what comes faster than 20 requests a second. Raises CalledProcessError.
    """
    folder, port = install(FERROGW), free_port()
    names = [model_name(*shape) for shape in sorted(set(shapes))]
    config = folder / f"{port}.json"
    targets = [
        {"virtual_key": "openai", "models": names},
        {"virtual_key": "anthropic", "models": [f"{MESSAGES}-{name}" for name in names]},
    ]
    config.write_text(json.dumps({"strategy": {"mode": "fallback"}, "targets": targets}))
    environ = {
        "GATEWAY_CONFIG": str(config),
        "PORT": "{port}",
        "MASTER_KEY": KEY,
        "RATE_LIMIT_RPS": "0",
        "LOG_LEVEL": "error",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "{upstream_url}",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "{upstream_url}",
    }
    command, url = f"{folder / 'bin' / 'ferrogw'} serve", f"http://{host.address}:{port}"
    return Against("ferrogw", command, url, environ, translates=True)


PEERS: Mapping[str, Callable[[Host, Sequence[tuple[int, int]]], Against]] = {"ferrogw": ferrogw}


def install(requirement: str) -> Path:
    """Install one package in one version below this environment; return its folder."""
    folder = Path(sys.prefix) / "peers" / requirement.replace("==", "-")
    if not folder.exists():
        made = folder.with_suffix(".unfinished")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--upgrade", "--target", str(made)]
        subprocess.run([*pip, *options, requirement], check=True)
        made.rename(folder)
    return folder


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])
