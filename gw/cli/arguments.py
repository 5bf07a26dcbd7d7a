"""How command lines are read: the parser that all commands share, and the kinds of values.

Every option that takes a value names one of the readers below; each raises ArgumentTypeError with
what was wrong. What the options mean is in the file of each noun.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from actors.wallet.money import MoneyError, parse_usd
from gw.cli.failures import UsageFault

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]

T = TypeVar("T")

LABEL_MAX = 200
# What the column holds; a limit that large is none anyway.
COUNT_MAX = 2**31 - 1

_USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_RFC3339 = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d))",
    re.ASCII,
)


class Parser(argparse.ArgumentParser):
    """A parser that takes options by their full names only, and leaves exiting to its caller."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.register_common()

    def register_common(self) -> None:
        """Take the options of every command at every place (contract §1)."""
        # No defaults: those of an inner parser would undo what was given to an outer one.
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
    """The command line asks for nothing but the version."""


class Version(argparse.Action):
    """Ends the reading of the command line, whatever else it lacks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, *_: Any) -> NoReturn:
        raise VersionAsked


def add_noun(nouns: Subparsers, name: str, text: str) -> Subparsers:
    """Add `gw NAME` with verbs to come."""
    parser = nouns.add_parser(name, help=text, description=text)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_command(
    commands: Subparsers, name: str, text: str, run: Callable[[argparse.Namespace], Any]
) -> Parser:
    """Add a command that `run` carries out."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def label(text: str) -> str:
    """Read a name: up to 200 printable characters, not only spaces."""
    name = text.strip()
    if not name:
        raise argparse.ArgumentTypeError("a name is needed")
    if len(name) > LABEL_MAX or not name.isprintable():
        raise argparse.ArgumentTypeError(f"a name is at most {LABEL_MAX} printable characters")
    return name


def user_name(text: str) -> str:
    """Read the name of a user of an account."""
    if not _USER_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!a} is not a name of a user: 1 to 64 of A-Z a-z 0-9 . _ @ -"
        )
    return text


def identifier(text: str) -> str:
    """Read an id; whether there is such a thing the database knows."""
    if not (text.isascii() and text.isprintable() and text):
        raise argparse.ArgumentTypeError(f"{text!a} is not an id")
    return text


def usd(text: str) -> int:
    """Read an amount in USD, also a negative one, into nano-USD."""
    try:
        return parse_usd(text)
    except MoneyError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def usd_or_more(text: str) -> int:
    """Read an amount in USD that is not negative into nano-USD."""
    amount = usd(text)
    if amount < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return amount


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= COUNT_MAX):
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number from 1 on")
    return int(text)


def temperature(text: str) -> float:
    """Read how freely a model may choose its words, from 0 to 2."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:  # which NaN is not, either
        raise argparse.ArgumentTypeError(f"{text!a} is not a number from 0 to 2")
    return value


def instant(text: str) -> datetime:
    """Read an RFC 3339 time, such as 2027-01-31T12:00:00Z; it may lie in the past."""
    message = f"{text!a} is not an RFC 3339 time such as 2027-01-31T12:00:00Z"
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(message)
    fraction = (match["fraction"] or ".0")[:7]
    offset = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
    try:
        naive = datetime.fromisoformat(f"{match['date']}T{match['time']}{fraction:0<7}")
        zone = timezone(-offset if match["sign"] == "-" else offset)
        return naive.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(message) from error


def or_none(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Read `none` as None and anything else with `read`."""
    return lambda text: None if text == "none" else read(text)


def sha256_hex(text: str) -> bytes:
    """Read a SHA-256 as 64 hex digits into its 32 bytes."""
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise argparse.ArgumentTypeError("a SHA-256 is 64 hex digits")
    return bytes.fromhex(text)
