"""python -m loadtests.bench: what a call costs, in one table (`--help` has the options).

Exit code: 0, or 1 when `gw ledger verify` found something after a gateway's run, when a piece of
work could not be measured, or when every window of a gateway was void in one.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.bench.bench import Bench, VoidWindow
from loadtests.bench.figures import Section
from loadtests.bench.peers import PEERS
from loadtests.bench.scenarios import SHAPES, WORKLOADS
from loadtests.bench.table import begin
from loadtests.rig.machine import (
    allow_files,
    available_cores,
    description,
    go_first,
    pin,
    place,
    session_kept,
)
from loadtests.rig.network import GATEWAY, network
from loadtests.rig.processes import CommandFailed
from loadtests.rig.site import HERE, Tree
from loadtests.rig.targets import Against, Network, light_upstream

FILES = 65_536
TABLE = Path("loadtests/table.md")
LONG = {"soak", "jobs"}  # work that is done only when it is named


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; leaves with status 2 when it is wrong.

    `only` are then the pieces of work to do, in the order of the table; `trees` and `others` what
    is measured beside our gateway; peers are installed.
    """
    parser = argparse.ArgumentParser(
        prog="ops/bench",
        description="Measure what a call costs, beside a bare proxy, other trees, other servers.",
        epilog="TREE is a checkout of this project whose environment is made. COMMAND is started "
        "with {upstream_url}, {upstream_host}, {upstream_port} and {port} filled in, and must then "
        "take POST /v1/chat/completions on URL, forwarding it there; with --network the host of "
        f"URL is {GATEWAY.address}.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=list(WORKLOADS), metavar="WORK", help=", ".join(WORKLOADS))
    add("--windows", type=int, choices=range(1, 1000), metavar="COUNT", default=7,
        help="for a figure (7)")  # fmt: skip
    add("--write", type=Path, metavar="FILE.md", default=TABLE,
        help=f"the table ({TABLE}); what else it holds already stays in it")  # fmt: skip
    add("--against", nargs="+", action="append", default=[], metavar="TREE | COMMAND URL",
        help="another tree or another server in the same run")  # fmt: skip
    add("--peer", nargs="+", choices=list(PEERS), metavar="PEER", default=[],
        help=f"other gateways, which are installed for it: {', '.join(PEERS)}")  # fmt: skip
    add("--network", action="store_true",
        help="load, server and upstream on hosts of their own, a delay between")  # fmt: skip
    options = parser.parse_args(arguments)
    options.only = [one for one in WORKLOADS if one in (options.only or {*WORKLOADS} - LONG)]
    host = GATEWAY if options.network else HERE
    options.trees, options.others = [], [PEERS[one](host, SHAPES) for one in options.peer]
    for first, *rest in options.against:
        tree = Tree.at(Path(first))
        if not rest and Path(tree.python).exists():
            options.trees.append(tree)
        elif len(rest) == 1 and urlsplit(rest[0]).port:
            options.others.append(Against(urlsplit(rest[0]).netloc, first, rest[0]))
        else:
            parser.error(f"--against {shlex.join([first, *rest])}: neither a TREE nor COMMAND URL")
    return options


@session_kept()
def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the table anew after each piece of work; return the exit code."""
    options = parse(arguments)
    # End like any other way out, so that nothing that was started stays.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    placement, machine, files = place(available_cores()), description(), allow_files(FILES)
    is_first = go_first([os.getpid()])
    table = begin(options.write, [
        *machine,
        f"a process may open {files:,} files",
        placement.describe(),
        "the run goes before other work" if is_first else "no priority over other work",
    ])  # fmt: skip
    pin(os.getpid(), placement.load)
    where = network(placement.rig) if options.network else nullcontext(Network())
    with where as hosts, light_upstream(placement, hosts.upstream) as upstream:
        print(f"between load, server and upstream: {hosts.between}", file=sys.stderr)
        bench = Bench(placement, options.windows, files, upstream, hosts, [], options.others,
                      options.trees, is_first)  # fmt: skip
        has_problem = False
        for name in options.only:
            print(name, file=sys.stderr, flush=True)
            section = _measure(bench, name)
            section.command = shlex.join(["ops/bench", *arguments])
            voids = {row for row in section.all_void() if row not in (o.name for o in bench.others)}
            has_problem |= bool(section.fault or voids)
            section.network = hosts.between
            table.put(name, section, WORKLOADS)
            table.keep(options.write)
    print(table.render())
    return 1 if has_problem else 0


def _measure(bench: Bench, name: str) -> Section:
    """A piece of work; one that fails does not end the others."""
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    bench.verified.clear()
    try:
        section = WORKLOADS[name](bench)
    except (CommandFailed, VoidWindow) as failed:
        section = Section(fault=f"{type(failed).__name__}: {failed}")
    section.date, section.verified = date, len(bench.verified)
    return section


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
