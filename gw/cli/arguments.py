"""Parses command lines: the parser common to all commands, and the types of values.

Every option with a value uses one of the readers below, which raise ArgumentTypeError with the
fault. The options are defined in the file of each noun.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from gw.admin import values
from gw.admin.refusals import Invalid
from gw.cli.failures import UsageFault
from gw.instants import NotAnInstant, read_instant

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser that accepts only full names of options, and raises instead of exiting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.register_common()

    def register_common(self) -> None:
        """Accept the common options at every place (contract §1)."""
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


def _reader(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader of values that raises the parser's error."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except Invalid as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reader


label = _reader(values.label)
user_name = _reader(values.user_name)
identifier = _reader(values.identifier)
usd = _reader(values.usd)
reason = _reader(values.read_reason)
usd_or_more = _reader(values.usd_or_more)


def count(text: str) -> int:
    """Read an integer from 1."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= values.COUNT_MAX):
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number from 1 on")
    return int(text)


def temperature(text: str) -> float:
    """Read a sampling temperature from 0 to 2."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:  # also refuses NaN
        raise argparse.ArgumentTypeError(f"{text!a} is not a number from 0 to 2")
    return value


def instant(text: str) -> datetime:
    """Read an RFC 3339 time, such as 2027-01-31T12:00:00Z, possibly in the past."""
    try:
        return read_instant(text, is_exact=True)
    except NotAnInstant as error:
        raise argparse.ArgumentTypeError(
            f"{text!a} is not an RFC 3339 time such as 2027-01-31T12:00:00Z"
        ) from error


def or_none(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Read `none` as None and any other text with `read`."""
    return lambda text: None if text == "none" else read(text)


def sha256_hex(text: str) -> bytes:
    """Read a SHA-256 as 64 hex digits into its 32 bytes."""
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise argparse.ArgumentTypeError("a SHA-256 is 64 hex digits")
    return bytes.fromhex(text)
