"""The command `gw`: builds the command line, and runs one command.

The commands are in the files of their nouns. Exit codes: 0 done, 1 refused or failed, 2 an invalid
command line or configuration (running.md: Commands).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gw.cli.arguments import Parser, Version, VersionAsked
from gw.cli.failures import EXIT_INTERRUPTED, failure_of, print_failure
from gw.cli.output import Result, print_result
from metrics.version import commit, release

# Each noun's file. Only those of the command line are imported, so that `gw key create` does not
# import the server.
NOUNS = {
    "demo": "gw.cli.demo",
    "init": "gw.cli.init",
    "serve": "gw.cli.serve",
    "check-config": "gw.cli.check_config",
    "matrix": "gw.cli.matrix",
    "openapi": "gw.cli.openapi",
    "admin": "gw.cli.admin",
    "account": "gw.cli.account",
    "key": "gw.cli.key",
    "agent": "gw.cli.agent",
    "budget": "gw.cli.budget",
    "webhook": "gw.cli.webhook",
    "ledger": "gw.cli.ledger",
    "secret": "gw.cli.secret",
    "receipt": "gw.cli.receipt",
    "tasks": "gw.cli.tasks",
    "events": "gw.cli.events",
    "kb": "gw.cli.kb",
    "margin": "gw.cli.margin",
    "reconcile": "gw.cli.reconcile",
    "models": "gw.cli.models",
    "console": "gw.cli.console",
    "import": "gw.cli.moving_in",
    "setup": "gw.cli.setup",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    _open_standard_streams()
    if not logging.getLogger().handlers:
        # The command reports a failure once; `serve` sets up its own log.
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        return _carried_out(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output is gone: prevents an error of the interpreter at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _open_standard_streams() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise the next file or connection gets the number, and messages are written to it.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def make_parser(arguments: Sequence[str]) -> Parser:
    """Build the parser for the commands of a command line, or for all if it has none."""
    parser = Parser(prog="gw", description="A prepaid gateway in front of many model providers.")
    parser.add_argument("--version", action=Version, help="print version and commit and exit")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = [noun for noun in NOUNS if noun in arguments]
    for noun in named or NOUNS:
        import_module(NOUNS[noun]).add(nouns)
    return parser


def _carried_out(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments  # a guess, for an invalid command line
    try:
        options = make_parser(arguments).parse_args(arguments)
        as_json = "json" in options
        outcome: Result | int = options.run(options)
    except VersionAsked:
        built = commit()
        text = f"gw {release()}" + (f" (commit {built})" if built else "")
        print_result(Result({"version": release(), "commit": built}, text), as_json=as_json)
        return 0
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        print_failure(failure, as_json=as_json)
        return failure.exit_code
    if isinstance(outcome, int):
        return outcome
    print_result(outcome, as_json=as_json)
    return outcome.exit_code
