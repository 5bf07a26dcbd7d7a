"""The tools of load, each for a moment."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.locust.mix import FAMILIES

pytestmark = pytest.mark.long

RUN_SECONDS = 240  # of a machine that has other work, and is ten times slower than an idle one
WORK = ("translated-stream", "paced500", "budgets")


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
    assert "`gw ledger verify` found nothing after 3 gateways" in text
    assert "void" not in text
    budgets = ("neither", "two budgets", "end user, two labels")
    names = ("rig alone", "bare proxy", "gateway", "native", "translated", *budgets)
    rates = []
    for name in names:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        rates.append(float(row.split("|")[2].split()[0].replace(",", "")))
    # On a machine with other work no call may end within one window.
    assert sum(rate > 0 for rate in rates) > len(rates) / 2, text


def test_a_run_over_a_network_has_its_delay_or_says_why_there_is_none(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    command = [sys.executable, "-m", "loadtests.bench", "--windows", "1", "--network"]
    done = subprocess.run(
        [*command, "--only", "plain", "--write", str(table)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode:  # not everyone may make namespaces, nor two at once
        assert done.stderr.splitlines()[-1].startswith("--network"), done.stdout + done.stderr
        return
    text = table.read_text(encoding="utf-8")
    assert "; over 0.25 ms each way, by " in text
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    (columns,) = [line for line in lines if "p50 ms" in line]
    rows = {line[1]: line for line in lines if len(line) == len(columns)}
    # On a machine with other work no call may end within a window, which then states none.
    medians = [
        float(stated)
        for name in ("rig alone", "bare proxy", "gateway")
        if (stated := rows[name][columns.index("p50 ms")].split()[0]) != "–"
    ]
    assert medians
    assert min(medians) >= 1.0  # there and back over two cables


CHAOS_SECONDS = 600  # of a machine that has other work


FAULTS = [
    "worker-killed",
    "postgres-killed",
    "postgres-read-only",
    "postgres-function-missing",
    "channels-cutting",
    "clients-leaving",
]


def test_faults_under_load_lose_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    command = [sys.executable, "-m", "loadtests", "chaos", "--only", *FAULTS, "--together"]
    done = subprocess.run(
        [*command, "--seconds", "2", "--write", str(table)],
        capture_output=True,
        text=True,
        timeout=CHAOS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    head, _, row = ([field.strip() for field in line.split("|")[1:-1]] for line in lines)
    result = dict(zip(head, row, strict=True))
    expected = (", ".join(FAULTS), "nothing", "kept")
    assert (result["fault"], result["wrong"], result["promises"]) == expected
    assert int(result["calls"]) >= int(result["answered"]) > 0


LOCUST_SECONDS = 240  # of a machine that has other work
ACCOUNTS = 2


def test_users_of_every_family_are_served_and_the_ledger_is_right(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtests.locust", "--even", "--users", str(len(FAMILIES))]
    done = subprocess.run(
        [
            *command,
            *("--seconds", "8", "--shape", "soak", "--accounts", str(ACCOUNTS)),
            # Neither a slow machine nor the gateway's care for itself is what is tried here.
            *("--p95-first-event-ms", "60000", "--failure-ratio", "0.5", "--shed-delay-ms", "0"),
            *("--csv", str(tmp_path / "run")),
        ],
        capture_output=True,
        text=True,
        timeout=LOCUST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "run_failures.csv").open(encoding="utf-8") as file:
        failures = [row["Error"] for row in csv.DictReader(file)]
    # Where the disk stands still for seconds, the database is silent, and calls are asked to wait.
    assert all("status 503" in failure for failure in failures), failures
    with (tmp_path / "run_stats.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["Name"] != "Aggregated"]
    served = {row["Name"].split()[0] for row in rows if int(row["Request Count"])}
    assert served == FAMILIES.keys()
    assert {row["Type"] for row in rows} == {"GET", "POST", "TASK", "FIRST", "GAP"}
    for process in ("gateway", "PostgreSQL"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{process} ")]
        cores, _, cpu_ms, first_mb, *_ = map(float, line.split()[1:-1])
        assert min(cores, cpu_ms, first_mb) > 0, line
    assert "\nit holds at least " in done.stdout
    assert f"gw ledger verify: {{'accounts': {ACCOUNTS}," in done.stdout
