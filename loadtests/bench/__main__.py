"""python -m loadtests.bench: what a call costs, in one table (`--help` has the options).

Exit code: 0, or 1 when `gw ledger verify` found something after a gateway's run, when a piece of
work could not be measured, or when every window of the gateway was void in one.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loadtests.bench.bench import FULL, QUICK, Bench, rig
from loadtests.bench.machine import allow_files, description, go_first
from loadtests.bench.options import chosen, others, parse
from loadtests.bench.placement import available_cores, place
from loadtests.bench.profile import write_profiles
from loadtests.bench.record import Measured, Record, begin, keep
from loadtests.bench.rig import VerifyFailed
from loadtests.bench.table import all_void, render
from loadtests.bench.window import VoidWindow
from loadtests.bench.workloads import WORKLOADS

FILES = 65_536


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the table; return the exit code."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, _end)
    if options.list:
        for name, work in WORKLOADS.items():
            print(f"{name:18} {work.__doc__}")
        return 0
    placement = place(available_cores())
    machine, files = description(), allow_files(FILES)
    scale = QUICK if options.quick else FULL
    scale = replace(
        scale,
        seconds=options.seconds or scale.seconds,
        windows=options.windows or scale.windows,
    ).within(files)
    os.sched_setaffinity(0, placement.rig)
    is_first = not options.quick and go_first([os.getpid()])
    with rig(placement) as surroundings:
        bench = Bench(
            placement=placement,
            scale=scale,
            rig=surroundings,
            is_first=is_first,
            others=others(options),
            processes=options.processes,
            soak_minutes=options.soak,
        )
        if options.profile:
            write_profiles(bench)
            return 0
        lines = (
            *machine,
            f"a process may open {files:,} files",
            placement.describe(),
            "the run goes before other work" if is_first else "no priority over other work",
        )
        record = begin(options.write, lines, is_full=not options.quick)
        command = shlex.join(["ops/bench", *arguments])
        return _measure(bench, record, chosen(options), options.write, command)


def _measure(
    bench: Bench, record: Record, names: Sequence[str], path: Path | None, command: str
) -> int:
    """Write the table anew after each piece of work; one that fails does not end the others."""
    others = {other.name for other in bench.others}
    has_problem, text = False, ""
    for name in names:
        verified = bench.verified
        measured = Measured(
            date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), command=command
        )
        try:
            measured.section = WORKLOADS[name](bench)
        except (VerifyFailed, VoidWindow) as failed:
            measured.fault = f"{type(failed).__name__}: {failed}"
        measured.verified = bench.verified - verified
        section = measured.section
        has_problem |= section is None or bool(set(all_void(section)) - others)
        record.put(name, measured, list(WORKLOADS))
        text = render(record)
        if path is not None:
            keep(record, path, text)
    print(text)
    return 1 if has_problem else 0


def _end(number: int, frame: object) -> None:
    """End like any other way out, so that nothing that was started stays."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
