"""The scripts in `ops/`: what they say when something that they need is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project without an environment, in a folder with a space in its name."""
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "ops", folder / "ops")
    return folder


def demo(project: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [project / "ops" / "demo"],
        cwd="/",
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def make_python(path: Path, body: str) -> str:
    """A program that stands in for Python; $PYTHON names one whose path has no space."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_no_fitting_python_is_one_clear_line(project: Path, data_dir: Path) -> None:
    old = make_python(data_dir / "old-python", "exit 1")
    done = demo(project, PYTHON=old)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "demo: needs Python 3.11 or newer, and found none\n"


def test_python_without_venv_is_one_clear_line(project: Path, data_dir: Path) -> None:
    body = f'case "$2" in *ensurepip*) exit 1;; esac; exec "{sys.executable}" "$@"'
    bare = make_python(data_dir / "bare-python", body)
    done = demo(project, PYTHON=bare)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"demo: {bare} lacks venv or pip (on Debian")
    assert done.stderr.count("\n") == 1


def test_failed_installation_is_reported_in_short_and_tried_again(project: Path) -> None:
    for _ in range(2):
        done = demo(project, PYTHON=sys.executable, PIP_NO_INDEX="1", PIP_FIND_LINKS="")
        assert (done.returncode, done.stdout) == (1, "")
        first, second = done.stderr.splitlines()
        assert first.startswith("demo: making the Python environment in ")
        assert second.startswith("demo: installing failed: ERROR: ")
        assert second.endswith("install.log)")


def test_environment_serves_each_extra_that_it_has(project: Path) -> None:
    """So that `ops/test` and `ops/load` in turn do not install each time."""
    (project / "env" / "bin").mkdir(parents=True)
    (project / "env" / "bin" / "python").symlink_to(sys.executable)
    script = """
        source ops/env.sh
        echo "$(fingerprint env/bin/python) load test" >env/made
        for extra in "" load test other tes; do is_ready env "$extra" && echo "has '$extra'"; done
        echo "$(fingerprint env/bin/python) " >env/made
        for extra in "" test; do is_ready env "$extra" && echo "bare has '$extra'"; done
        echo "another load test" >env/made
        for extra in "" test; do is_ready env "$extra" && echo "old has '$extra'"; done
        exit 0
    """
    done = subprocess.run(
        ["bash", "-c", script], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["has ''", "has 'load'", "has 'test'", "bare has ''"]


def test_scripts_are_short(project: Path) -> None:
    lengths = {
        path.name: len(path.read_text().splitlines())
        for path in (project / "ops").iterdir()
        if path.is_file() and not path.suffix
    }
    assert lengths
    assert max(lengths.values()) < 20
