"""The benchmark from its command line to its table, on real processes and two pieces of work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

RUN_SECONDS = 240  # of a machine that has other work, and is ten times slower than an idle one
WORK = ("translated-stream", "paced500")


def test_a_short_run_writes_a_table_of_real_figures(tmp_path: Path) -> None:
    table = tmp_path / "made" / "table.md"
    command = [sys.executable, "-m", "loadtests.bench", "--windows", "1"]
    done = subprocess.run(
        [*command, "--only", *WORK, "--write", str(table)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = table.read_text(encoding="utf-8")
    assert done.stdout.endswith(f"{text}\n")
    assert "`gw ledger verify` found nothing after 2 gateways" in text
    assert "void" not in text
    for name in ("rig alone", "bare proxy", "gateway", "native", "translated"):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        first = row.split("|")[2].split()[0]
        assert float(first.replace(",", "")) > 0, row
