"""A user of every family for some seconds, on real processes: all end as they must, and so does
the ledger.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.locust.mix import FAMILIES

pytestmark = pytest.mark.long

RUN_SECONDS = 240  # of a machine that has other work
ACCOUNTS = 2


def test_users_of_every_family_are_served_and_the_ledger_is_right(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtests.locust", "--even", "--users", str(len(FAMILIES))]
    done = subprocess.run(
        [
            *command,
            *("--seconds", "8", "--shape", "soak", "--accounts", str(ACCOUNTS)),
            # Neither a slow machine nor the gateway's care for itself is what is tried here.
            *("--p95-first-event-ms", "60000", "--failure-ratio", "0", "--shed-delay-ms", "0"),
            *("--csv", str(tmp_path / "run")),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "run_stats.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["Name"] != "Aggregated"]
    served = {row["Name"].split()[0] for row in rows if int(row["Request Count"])}
    assert served == FAMILIES.keys()
    assert {row["Type"] for row in rows} == {"GET", "POST", "TASK", "FIRST", "GAP"}
    for process in ("gateway", "PostgreSQL"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{process} ")]
        cores, _, cpu_ms, first_mb, *_ = map(float, line.split()[1:-1])
        assert min(cores, cpu_ms, first_mb) > 0, line
    assert "\nthis machine holds " in done.stdout
    assert f"gw ledger verify: {{'accounts': {ACCOUNTS}," in done.stdout
