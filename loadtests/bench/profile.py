"""Where the gateway's time goes: py-spy beside a load, and its stacks summed up by room."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadtests.bench.bench import Bench
from loadtests.bench.rooms import Stacks, parse_stacks, report
from loadtests.bench.workloads import PLAIN, STREAM

FOLDER = Path("loadtests/profiles")
RATE = 250  # samples a second
SECONDS = 12
WORK = {"plain": PLAIN, "stream": STREAM}


def write_profiles(bench: Bench) -> None:
    """Write a table for the plain and for the stream path. Raises SystemExit without py-spy."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which(
        "py-spy"
    )
    if program is None:
        raise SystemExit("py-spy is missing: it comes with the extra `load`")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, ask in WORK.items():
        with bench.gateway([ask]) as target:
            load = bench.rig.crew
            load.open(bench.subject(target, ask).plan)
            time.sleep(bench.scale.warm_seconds)
            begin = time.perf_counter()
            load.measure((begin, begin + SECONDS))
            stacks = _record(program, target.pid)
            seen = load.collect()
        rate = seen.windows[0].answers / SECONDS
        title = f"{name}: {ask.connections} connections, {rate:,.0f} calls/s while sampled"
        text = report(title, stacks)
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(text)


def _record(program: str, pid: int) -> Stacks:
    with tempfile.NamedTemporaryFile("r", prefix="gw-stacks-", suffix=".txt") as file:
        arguments = [
            "--pid",
            str(pid),
            "--rate",
            str(RATE),
            "--duration",
            str(SECONDS - 1),
        ]
        subprocess.run(
            [program, "record", *arguments, "--format", "raw", "--output", file.name],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return parse_stacks(file.read())
