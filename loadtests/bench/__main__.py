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
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

from loadtests.bench.bench import FULL, QUICK, Bench, rig
from loadtests.bench.figures import Section
from loadtests.bench.machine import allow_files, description
from loadtests.bench.options import chosen, others, parse
from loadtests.bench.placement import available_cores, place
from loadtests.bench.profile import write_profiles
from loadtests.bench.rig import VerifyFailed
from loadtests.bench.table import Run, render
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
    with rig(placement) as surroundings:
        bench = Bench(
            placement=placement,
            scale=scale,
            rig=surroundings,
            fronts=options.front,
            others=others(options),
            processes=options.processes,
            soak_minutes=options.soak,
        )
        if options.profile:
            write_profiles(bench)
            return 0
        run = Run(
            command=shlex.join(["ops/bench", *arguments]),
            date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            machine=[*machine, f"a process may open {files:,} files"],
            placement=placement.describe(),
            windows=scale.windows,
            seconds=scale.seconds,
            is_full=not options.quick,
        )
        return _measure(bench, run, chosen(options), options.write)


def _measure(bench: Bench, run: Run, names: Sequence[str], path: Path) -> int:
    """Write the table anew after each piece of work; one that fails does not end the others."""
    sections: list[Section] = []
    problems: list[str] = []
    text = ""
    for name in names:
        try:
            section = WORKLOADS[name](bench)
        except (VerifyFailed, VoidWindow) as failed:
            problems.append(f"**{name}: {type(failed).__name__}: {failed}**")
        else:
            sections.append(section)
            problems += _voids(section, {other.name for other in bench.others})
        notes = [
            f"`gw ledger verify` found nothing after {bench.verified} gateways",
            *problems,
        ]
        text = render(replace(run, notes=notes), sections)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(text)
    return 1 if problems else 0


def _voids(section: Section, others: Set[str]) -> list[str]:
    """Of what nothing is known; another server that fails is its own affair."""
    return [
        f"**{section.name}: every window of {row.name} is void**"
        for row in section.rows
        if row.voids and not row.figures and row.name not in others
    ]


def _end(number: int, frame: object) -> None:
    """End like any other way out, so that nothing that was started stays."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
