"""Peers of the benchmark: how they are started, and that they are installed once."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench import peers
from loadtests.rig.machine import Placement
from loadtests.rig.site import HERE, Host
from loadtests.rig.targets import Against, Target, other_server

UPSTREAM = Target("rig alone", "127.0.0.1", 7, 1, ["bench"])
ANYWHERE = Placement(frozenset({0}), frozenset({0}), frozenset({0}), frozenset({0}))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Sequence[str]]:
    """What pip was asked for."""
    asked: list[Sequence[str]] = []

    def install(command: Sequence[str], **_: Any) -> None:
        asked.append(command)
        Path(command[command.index("--target") + 1]).mkdir(parents=True)

    monkeypatch.setattr(subprocess, "run", install)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return asked


def test_peer_is_installed_once_into_a_folder_of_its_own(installed: list[Sequence[str]]) -> None:
    first, second = peers.install("one==1.0"), peers.install("one==1.0")
    assert first == second == Path(sys.prefix) / "peers" / "one-1.0"
    assert first.is_dir()
    assert [command[-1] for command in installed] == ["one==1.0"]


def test_peer_does_our_calls_without_a_limit(installed: list[Sequence[str]]) -> None:
    peer = peers.ferrogw(Host("198.18.1.2", "there"), [(7, 0), (40, 20), (7, 0)])
    assert peer.translates
    assert peer.url.startswith("http://198.18.1.2:")
    assert peer.environ["RATE_LIMIT_RPS"] == "0"
    config = json.loads(Path(peer.environ["GATEWAY_CONFIG"]).read_text(encoding="utf-8"))
    assert {one["virtual_key"]: one["models"] for one in config["targets"]} == {
        "openai": ["bench-7x0", "bench-40x20"],
        "anthropic": ["translated-bench-7x0", "translated-bench-40x20"],
    }


def test_other_server_is_told_where_the_upstream_is(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import os, socket, sys\n"
        "assert sys.argv[1] == os.environ['UPSTREAM'] == 'http://127.0.0.1:7', os.environ\n"
        "with socket.create_server(('127.0.0.1', int(os.environ['PORT']))) as server:\n"
        "    while True: server.accept()\n"
    )
    port = peers.free_port()
    environ = {"UPSTREAM": "{upstream_url}", "PORT": "{port}"}
    command = f"{sys.executable} {program} {{upstream_url}}"
    against = Against("one", command, f"http://127.0.0.1:{port}", environ)
    with other_server(against, UPSTREAM, ANYWHERE, HERE) as server:
        assert (server.name, server.port, server.suffix) == ("one", port, " of one")
