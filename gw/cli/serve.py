"""`gw serve`: run the gateway until it is told to stop (contract §1).

What runs is `gw/run.py`, imported only when it is needed: the other commands start faster.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from gw.cli.arguments import add_command, count
from gw.cli.context import read_config
from gw.cli.failures import CommandRefused, UsageFault
from gw.cli.output import print_line, to_json

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers
    from gw.serve import Gateway


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    parser = add_command(nouns, "serve", "run the gateway until SIGTERM or Ctrl-C", serve)
    parser.add_argument(
        "--front", choices=("httptools", "tornado"), default="httptools", help="the HTTP server"
    )
    parser.add_argument(
        "--processes", metavar="N", type=count, default=1, help="1, the only choice so far"
    )


def serve(options: Namespace) -> int:
    if options.processes != 1:
        raise UsageFault("--processes: this version runs one process")
    config = read_config(options)
    from gw.run import run_gateway, run_loop
    from metrics.logs import configure

    configure(sys.stderr)

    async def announce(gateway: Gateway) -> None:
        record = {"listen": gateway.listen_url, "admin": gateway.admin_url, "pid": os.getpid()}
        print_line(to_json(record))

    on_ready = announce if getattr(options, "json", False) else None
    try:
        return run_loop(
            run_gateway(config, reload_from=config.source, front=options.front, on_ready=on_ready)
        )
    except OSError as error:
        raise CommandRefused(f"the gateway cannot run: {error}", "cannot_serve") from error
