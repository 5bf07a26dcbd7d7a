"""Which commit the gateway was built from: of a package, of a checkout, and of nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metrics.version import COMMIT_FILE, commit
from tests.tidy.files import ROOT

HASH = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_build_writes_the_commit_where_it_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    # Sources are only read: what setuptools writes beside them goes into the test's folder.
    command[3:3] = ["egg_info", "--egg-base", str(tmp_path)]
    environ = {**os.environ, "GW_COMMIT": HASH, "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    assert commit(tmp_path / "metrics") == HASH
    assert not (ROOT / "metrics" / COMMIT_FILE).exists()


def test_checkout_is_asked(tmp_path: Path) -> None:
    package = tmp_path / "metrics"
    package.mkdir()
    git(tmp_path, "init", "--quiet")
    assert commit(package) == ""  # no commit yet
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "one")
    assert commit(package) == git(tmp_path, "rev-parse", "HEAD")


def test_unknown_commit_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit(tmp_path / "metrics") == ""
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert commit(tmp_path / "metrics") == ""
