"""Two faults of `./ops/chaos` for a few seconds, on real processes: every promise is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

RUN_SECONDS = 240  # of a machine that has other work
COLUMNS = ("calls", "answered", "lost", "double-settled", "open holds after 30 s", "leaked slots")


@pytest.mark.parametrize("fault", ["worker-killed", "postgres-killed"])
def test_fault_under_load_loses_nothing(fault: str, tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    command = [sys.executable, "-m", "loadtests.chaos", "--only", fault, "--seconds", "2"]
    done = subprocess.run(
        [*command, "--write", str(table)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    head, _, row = ([field.strip() for field in line.split("|")[1:-1]] for line in lines)
    told = dict(zip(head, row, strict=True))
    assert (told["fault"], told["promises"]) == (fault, "kept")
    calls, answered, *left = (int(told[name]) for name in COLUMNS)
    assert calls >= answered > 0
    assert not any(left)
