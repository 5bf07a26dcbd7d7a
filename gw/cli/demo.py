"""`gw demo`: run the whole gateway on this machine without configuration (running.md: Commands).

`gw/demo` is imported only when needed. `--config` is the path to which the demo writes its
configuration, next to its data; other commands accept the same file.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gw.cli.arguments import add_command
from gw.cli.failures import CommandRefused, UsageFault

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

DEFAULT_FILE = Path("var/demo/gw.yaml")


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        nouns, "demo", "run everything on this machine, with a funded key, until Ctrl-C", demo
    )


def demo(options: Namespace) -> int:
    from gw.demo.configuration import is_ours
    from gw.demo.run import SimulatorMissing, run_demo
    from gw.run import run_loop
    from metrics.logs import configure

    path = Path(getattr(options, "config", DEFAULT_FILE)).absolute()
    if not is_ours(path):
        raise UsageFault(f"--config: {path} was not written by a demo; it is left alone")
    configure(sys.stderr, level="warning")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return run_loop(run_demo(path, is_json=getattr(options, "json", False)))
    except SimulatorMissing as error:
        raise CommandRefused("the upstream simulator did not start", "cannot_serve") from error
    except OSError as error:
        raise CommandRefused(f"the demo cannot run: {error}", "cannot_serve") from error
