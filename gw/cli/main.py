"""The command `gw`: the whole command line put together, and one command carried out.

What each command does is in the file of its noun. Exit codes: 0 done, 1 refused or failed, 2 the
command line or the configuration is at fault (contract §1).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gw.cli.arguments import (
    EXIT_INTERRUPTED,
    Parser,
    Result,
    Version,
    VersionAsked,
    explain,
    print_failure,
    print_result,
)
from metrics.version import commit, release

# Each noun's file. Only those a command line names are imported, so that `gw key create` does not
# wait for the server.
NOUNS = {
    "demo": "gw.cli.demo",
    "init": "gw.cli.init",
    "serve": "gw.cli.serve",
    "check-config": "gw.cli.check_config",
    "matrix": "gw.cli.matrix",
    "admin": "gw.cli.admin",
    "account": "gw.cli.account",
    "key": "gw.cli.key",
    "agent": "gw.cli.agent",
    "ledger": "gw.cli.ledger",
    "secret": "gw.cli.secret",
    "receipt": "gw.cli.receipt",
    "tasks": "gw.cli.tasks",
    "kb": "gw.cli.kb",
    "margin": "gw.cli.margin",
    "reconcile": "gw.cli.reconcile",
    "models": "gw.cli.models",
    "console": "gw.cli.console",
    "import": "gw.cli.moving_in",
    "setup": "gw.cli.setup",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (default: this process's) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    _open_standard_streams()
    if not logging.getLogger().handlers:
        # A failure is reported once, by the command; `serve` sets up its own log.
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        return _carried_out(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _open_standard_streams() -> None:
    """Where the caller has closed one, put what takes everything in its place.

    Else its number is given to the next file or connection, and what is meant for people lands in
    there.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def make_parser(arguments: Sequence[str]) -> Parser:
    """Build the parser of what a command line names; of everything, where it names no command."""
    parser = Parser(prog="gw", description="A prepaid gateway in front of many model providers.")
    parser.add_argument("--version", action=Version, help="print version and commit and exit")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = [noun for noun in NOUNS if noun in arguments]
    for noun in named or NOUNS:
        import_module(NOUNS[noun]).add(nouns)
    return parser


def _carried_out(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments  # a guess, for a command line that cannot be read
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
        failure = explain(error)
        if failure is None:
            raise
        print_failure(failure, as_json=as_json)
        return failure.exit_code
    if isinstance(outcome, int):
        return outcome
    print_result(outcome, as_json=as_json)
    return outcome.exit_code
