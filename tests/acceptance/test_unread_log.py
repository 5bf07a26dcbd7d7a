"""A log that is rotated by copying, with real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, channel, deployment, model
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.long

FLAPPING = {"failures": 1, "cooldown": 0.001}  # each call is two lines of the log
SETTINGS: dict[str, Any] = {
    "listen": A_KNOWN_PORT,
    "admin_listen": A_KNOWN_PORT,
    "channels": [channel("broken", base_url="http://127.0.0.1:9", health=FLAPPING)],
    "models": [model("sim-model", "broken")],
}


@pytest.fixture
def h(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment on known ports, whose gateway the test starts itself."""
    with deployment(database_url, tmp_path, processes=request.param, **SETTINGS) as built:
        assert built.gateway.terminate() == 0
        yield built


@contextmanager
def gateway(h: Deployment, stderr: IO[bytes] | int | None) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway that is ready, with this for its log, or with none at all; it ends well."""
    command = [sys.executable, "-m", "gw", "serve", "--config", str(h.config)]
    command += ["--processes", str(h.processes)]
    if stderr is None:
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]

    def is_ready() -> bool:
        assert running.poll() is None, f"it ended with {running.returncode}"
        try:
            return Admin(h.gateway.admin_url).get("/readyz").status == 200
        except OSError:
            return False

    with subprocess.Popen(command, stderr=stderr) as running:
        try:
            until(is_ready, what="a gateway that is ready")
            yield running
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE_SECONDS) == 0
        finally:
            running.kill()


def serve_calls(h: Deployment, count: int) -> int:
    """So many calls are answered, and so are the probes; returns for how many a channel was tried.

    A call that comes while the channel's cooldown lasts is refused and leaves no line.
    """
    tried = 0
    with closing(h.client.kept()) as client:
        for _ in range(count):
            status = client.chat().status
            assert status in (502, 503)
            tried += status == 502
    assert Admin(h.gateway.admin_url).get("/healthz").status == 200
    return tried


@pytest.mark.parametrize("h", [1], indirect=True)
def test_log_in_a_file_is_rotated_by_copying(h: Deployment, tmp_path: Path) -> None:
    """As `logrotate` does with `copytruncate`: what is appended begins the emptied file."""
    path, rotated = tmp_path / "gw.log", tmp_path / "gw.log.1"
    with path.open("ab") as appended, gateway(h, appended) as running:

        def reloads() -> int:
            running.send_signal(signal.SIGHUP)
            return path.read_bytes().count(b"configuration_reloaded")

        until(reloads, what="a line in the file")
        serve_calls(h, 5)
        rotated.write_bytes(path.read_bytes())
        os.truncate(path, 0)
        until(reloads, what="a line in the emptied file")
        lines = [line for line in path.read_bytes().splitlines() if not line.startswith(b"ready")]
        assert {json.loads(line)["level"] for line in lines} <= {"info", "warning"}
    assert b"ready" in rotated.read_bytes()
