"""The wheel, installed where no checkout is: a streamed call of the demo, a ledger that adds up."""

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from loadtests.rig.client import Client
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.tidy.files import ROOT, SOURCES

pytestmark = pytest.mark.long

# What an image is built of, too (`ops/image/Dockerfile`).
PARTS = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", ".github/LICENSE", *SOURCES)
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# Without what a shell may have of a checkout or of another environment.
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

# Prints what of the loads is there.
LOADS = """\
import loadtests, pkgutil
print(*(module.name for module in pkgutil.iter_modules(loadtests.__path__)))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=cwd, env=ENVIRON, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def built(folder: Path) -> Path:
    """The wheel of the checkout, built from a copy: a build writes beside its sources."""
    sources = folder / "sources"
    for part in (*PARTS, "loadtests"):
        target = sources / part
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, target)
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    run(sys.executable, *PIP, "wheel", *options, sources, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(folder: Path) -> Path:
    """The programs of an environment that has nothing but the wheel and what it depends on."""
    environment, wheel = folder / "environment", built(folder)
    venv.create(environment, with_pip=True)
    constraints = ROOT / "ops" / "constraints.txt"
    programs = environment / "bin"
    run(programs / "python", *PIP, "install", "--constraint", constraints, wheel, cwd=folder)
    return programs


def test_installed_wheel_runs_the_demo(data_dir: Path, tmp_path: Path) -> None:
    programs, config = installed(tmp_path), data_dir / "gw.yaml"
    empty = tmp_path / "empty"
    empty.mkdir()
    where = run(programs / "python", "-c", "import gw; print(gw.__path__[0])", cwd=empty)
    assert where.startswith(str(programs.parent)), where
    listed = run(programs / "python", "-c", LOADS, cwd=empty).split()
    assert {"chaos", "rig", "simulator"} & {*listed} == {"simulator"}
    demo = subprocess.Popen(
        [programs / "gw", "demo", "--config", config, "--json"],
        cwd=empty,
        env=ENVIRON,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        shown = json.loads(demo.stdout.readline())
        client = Client(shown["base_url"], shown["key"])
        assert client.chat(model="demo-large", stream=True).is_complete
        report = run(programs / "gw", "ledger", "verify", "--config", config, "--json", cwd=empty)
        assert json.loads(report)["ok"]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=PATIENCE_SECONDS) == 0
    finally:
        demo.kill()
        demo.communicate()
