"""python -m loadtests.bench: what a call costs, in one table (`--help` has the options).

Exit code: 0, or 1 when `gw ledger verify` found something after a gateway's run, when a piece of
work could not be measured, or when every window of the gateway was void in one.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.bench.bench import FULL, QUICK, Bench, rig
from loadtests.bench.machine import allow_files, description, go_first
from loadtests.bench.placement import available_cores, place
from loadtests.bench.record import Measured, Record, begin, keep
from loadtests.bench.rig import Against, VerifyFailed
from loadtests.bench.scenarios import WORKLOADS
from loadtests.bench.table import render
from loadtests.bench.window import VoidWindow

FILES = 65_536
TABLE = Path("loadtests/table.md")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; leaves with status 2 when it is wrong.

    `only` are then the pieces of work to do, in the order of the table; `against` the other
    servers, each with the name of where it listens.
    """
    parser = argparse.ArgumentParser(
        prog="ops/bench",
        description="Measure what a call costs, beside a bare proxy and any other server.",
        epilog="COMMAND is started with {upstream_url}, {upstream_host}, {upstream_port} and {port}"
        " filled in, and must then take POST /v1/chat/completions on URL, forwarding it there.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    stays = f"the table ({TABLE}, with --quick none); what else it holds already stays in it"
    add("--only", nargs="+", choices=[*WORKLOADS], metavar="WORK", help=", ".join(WORKLOADS))
    add("--quick", action="store_true", help="short and small: whether it works, not how fast")
    add("--windows", type=int, choices=range(1, 1000), metavar="COUNT", help="for a figure (7)")
    add("--write", type=Path, metavar="FILE.md", help=stays)
    add("--against", nargs=2, action="append", default=[], metavar=("COMMAND", "URL"),
        help="another server in the same run")  # fmt: skip
    add("--soak", type=float, default=0.0, metavar="MINUTES", help="add the work `soak`")
    options = parser.parse_args(arguments)
    if "soak" in (options.only or ()) and not options.soak:
        parser.error("soak needs --soak MINUTES")
    for _, url in options.against:
        if urlsplit(url).port is None:
            parser.error(f"{url} is no http://HOST:PORT")
    if options.write is None and not options.quick:
        options.write = TABLE
    wanted = {*(options.only or WORKLOADS), "soak"} - (set() if options.soak else {"soak"})
    options.only = [name for name in WORKLOADS if name in wanted]
    options.against = [Against(urlsplit(url).netloc, text, url) for text, url in options.against]
    return options


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the table; return the exit code."""
    options = parse(arguments)
    # End like any other way out, so that nothing that was started stays.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    placement, machine, files = place(available_cores()), description(), allow_files(FILES)
    scale = QUICK if options.quick else FULL
    scale = replace(scale, windows=options.windows or scale.windows).within(files)
    is_first = not options.quick and go_first([os.getpid()])
    lines = (
        *machine,
        f"a process may open {files:,} files",
        placement.describe(),
        "the run goes before other work" if is_first else "no priority over other work",
    )
    record = begin(options.write, lines, is_full=not options.quick)
    with rig(placement) as surroundings:
        bench = Bench(
            placement, scale, surroundings, options.against, options.soak, is_first=is_first
        )
        command = shlex.join(["ops/bench", *arguments])
        return _measure(bench, record, options.only, options.write, command)


def _measure(
    bench: Bench, record: Record, names: Sequence[str], path: Path | None, command: str
) -> int:
    """Write the table anew after each piece of work; one that fails does not end the others."""
    others = {other.name for other in bench.others}
    has_problem, text = False, ""
    for name in names:
        verified = bench.verified
        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        measured = Measured(date=date, command=command)
        print(name, file=sys.stderr, flush=True)
        try:
            section = measured.section = WORKLOADS[name](bench, name)
            has_problem |= not others.issuperset(section.all_void())
        except (VerifyFailed, VoidWindow) as failed:
            measured.fault, has_problem = f"{type(failed).__name__}: {failed}", True
        measured.verified = bench.verified - verified
        record.put(name, measured, list(WORKLOADS))
        text = render(record)
        if path is not None:
            keep(record, path, text)
    print(text)
    return 1 if has_problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
