"""The command line of the benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.bench.rig import Against
from loadtests.bench.workloads import WORKLOADS

TABLE = Path("loadtests/table.md")
ON_REQUEST = ("soak",)  # not part of a run unless asked for
EPILOG = """\
COMMAND is started as it is, with {upstream_url}, {upstream_host}, {upstream_port} and {port} filled
in, and must then take POST /v1/chat/completions on URL, forwarding it to the upstream. Example:

  ops/bench --only plain stream \\
      --against "python proxy.py {port} {upstream_port}" http://127.0.0.1:18099 --name other
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; leaves with status 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="ops/bench",
        description="Measure what a call costs, beside a bare proxy and any other server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--only",
        nargs="+",
        choices=list(WORKLOADS),
        metavar="WORK",
        help="these pieces of work",
    )
    add("--list", action="store_true", help="name the pieces of work and leave")
    add(
        "--quick",
        action="store_true",
        help="short and small: whether it works, not how fast",
    )
    add("--windows", type=_count, help="for each figure (7)")
    add("--seconds", type=float, help="of a window (1)")
    add(
        "--write",
        type=Path,
        metavar="FILE.md",
        help=f"the table ({TABLE}, with --quick none); what else it holds already stays in it",
    )
    add(
        "--against",
        nargs=2,
        action="append",
        default=[],
        metavar=("COMMAND", "URL"),
        help="another server in the same run",
    )
    add(
        "--name",
        action="append",
        default=[],
        help="of the server of the same place in --against",
    )
    add("--processes", type=_count, default=2, help="of the work `processes` (2)")
    add("--soak", type=float, default=0.0, metavar="MINUTES", help="add the work `soak`")
    add(
        "--profile",
        action="store_true",
        help="write where the gateway's time goes, and no table",
    )
    options = parser.parse_args(arguments)
    if len(options.name) > len(options.against):
        parser.error("there are more --name than --against")
    if "soak" in (options.only or ()) and not options.soak:
        parser.error("soak needs --soak MINUTES")
    for _, url in options.against:
        if urlsplit(url).port is None:
            parser.error(f"{url} is no http://HOST:PORT")
    if options.write is None and not options.quick:
        options.write = TABLE
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    """The pieces of work to do, in the order of the table."""
    wanted = options.only or [name for name in WORKLOADS if name not in ON_REQUEST]
    return [name for name in WORKLOADS if name in wanted or (name == "soak" and options.soak)]


def others(options: argparse.Namespace) -> list[Against]:
    """The other servers, each with its name, or where it listens for want of one."""
    made = []
    for number, (command, url) in enumerate(options.against):
        name = options.name[number] if number < len(options.name) else urlsplit(url).netloc
        made.append(Against(name, command, url))
    return made


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return count
