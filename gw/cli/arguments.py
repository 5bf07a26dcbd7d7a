"""Parses command lines: the parser common to all commands, and the types of values.

Every option with a value uses one of the readers below, which raise ArgumentTypeError with the
fault; those of a noun's members are made from their declaration (`gw/nouns/noun.py`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from gw.cli.context import Check, Work, with_database
from gw.cli.failures import UsageFault
from gw.nouns import values
from gw.nouns.member import as_option

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]


class Parser(argparse.ArgumentParser):
    """A parser that accepts only full names of options, and raises instead of exiting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        # So that an offset such as -05:30 is a value: no option begins with a digit.
        self._negative_number_matcher = re.compile(r"-\d.*")
        self.register_common()

    def register_common(self) -> None:
        """Accept the common options at every place (running.md: Commands)."""
        # No defaults: those of an inner parser would overwrite values of an outer one.
        absent = argparse.SUPPRESS
        self.add_argument(
            "--config",
            metavar="FILE",
            default=absent,
            help="the configuration (default: $GW_CONFIG, then gw.yaml)",
        )
        self.add_argument(
            "--json", action="store_true", default=absent, help="answer with one JSON object"
        )

    def error(self, message: str) -> NoReturn:
        raise UsageFault(message, self.format_usage())


class VersionAsked(Exception):
    """The command line requests the version."""


class Version(argparse.Action):
    """Ends parsing, even if the command line is incomplete."""

    def __init__(self, **options: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, *_: Any) -> NoReturn:
        raise VersionAsked


def add_noun(nouns: Subparsers, name: str, text: str) -> Subparsers:
    """Add `gw NAME`, whose verbs are added later."""
    parser = nouns.add_parser(name, help=text, description=text)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_command(
    commands: Subparsers, name: str, text: str, run: Callable[[argparse.Namespace], Any]
) -> Parser:
    """Add a command that calls `run`."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


label = as_option(values.label)
user_name = as_option(values.user_name)
identifier = as_option(values.identifier)
count = as_option(values.count)
instant = as_option(values.instant)


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of a noun: what it runs, once its options are checked, and what adds them."""

    name: str
    text: str
    run: Work
    options: Sequence[Callable[[Parser], object]] = ()
    check: Check | None = None


def add_verbs(nouns: Subparsers, name: str, text: str, verbs: Iterable[Verb]) -> None:
    """Add a noun with commands that use the database."""
    parsers = add_noun(nouns, name, text)
    for verb in verbs:
        add_verb(parsers, verb)


def add_verb(commands: Subparsers, verb: Verb) -> None:
    """Add a command that uses the database."""
    run = with_database(verb.run, check=verb.check)
    parser = add_command(commands, verb.name, verb.text, run)
    for add in verb.options:
        add(parser)


def option(*names: str, **settings: Any) -> Callable[[Parser], object]:
    """Return what adds one option or operand."""
    return lambda parser: parser.add_argument(*names, **settings)


def id_of(text: str) -> Callable[[Parser], object]:
    """Return what adds the id of an object."""
    return option("id", metavar="ID", type=identifier, help=f"of the {text}")


def limit(most: int) -> Callable[[Parser], object]:
    """Return what adds the length of a list, which is not longer than `most`."""
    return option("--limit", metavar="N", type=count, default=most, help=f"at most {most}")


def account_of(text: str, *, required: bool = True) -> Callable[[Parser], object]:
    """Return what adds the option of an account."""
    return option("--account", metavar="ID", type=identifier, required=required, help=text)


def sha256_hex(text: str) -> bytes:
    """Read a SHA-256 as 64 hex digits into its 32 bytes."""
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise argparse.ArgumentTypeError("a SHA-256 is 64 hex digits")
    return bytes.fromhex(text)
