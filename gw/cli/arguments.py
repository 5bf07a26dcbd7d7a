"""Parses command lines: the parser common to all commands, and the types of values.

Every option with a value uses one of the readers below, which raise ArgumentTypeError with the
fault. The options are defined in the file of each noun.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from actors.changes import heard_by_all
from actors.media_store.storage import BucketFault
from actors.store.connection import SessionsNotKept, StoreError
from actors.store.database import Database, Session
from actors.store.embedded.access import EmbeddedFault
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.schema import MigrationFault, migrate
from channels.registry import Registry
from gw.admin import refusals, values
from gw.admin.audit import Actor
from gw.admin.refusals import Invalid, Refused
from gw.admin.values import canonical_models
from gw.config.config import Config
from gw.config.load import find, load
from gw.config.readers import ConfigFaults, fault_records
from gw.keys.secret import Secret, load_secret
from gw.keys.secret_file import SecretFault
from gw.keys.store import CapIsNeeded
from gw.knowledge.importing import ExportRefused
from gw.knowledge.pages import FolderFaults

# The output of a command: one record for programs, tables for people (contract §1: `--json`).
#
# Commands return a `Result`, which `main.py` prints; nothing else in a command writes to stdout.

GAP = "  "


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a command in both forms, and its exit code."""

    record: Mapping[str, Any]
    text: str
    exit_code: int = 0


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result on stdout: the record as one JSON object, or the text."""
    print_line(to_json(result.record) if as_json else result.text)


def print_line(text: str) -> None:
    """Print a line on stdout, replacing characters missing from the terminal's encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def to_json(record: Mapping[str, Any]) -> str:
    """Return a record on one line, in ASCII."""
    return json.dumps(record, default=_plain)


def rfc3339(instant: datetime | None) -> str | None:
    """Return an instant in UTC with a Z; None stays None."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def sheet(record: Mapping[str, Any]) -> str:
    """Return one record with a line for each field."""
    return _aligned([name, shown(value)] for name, value in record.items())


def table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return records below a header, with some of their fields as columns."""
    rows = [[shown(record[column]) for column in columns] for record in records]
    return _aligned([list(columns), *rows])


def shown(value: Any) -> str:
    """Return one value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _aligned(rows: Iterable[Sequence[str]]) -> str:
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain(value: Any) -> Any:
    """Convert types of the database that JSON lacks."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, datetime):
        return rfc3339(value)
    raise TypeError(f"{value!r} has no place in an answer")


# The output of a failed command: a message, a code, an exit code.
#
# Every expected exception has its line here; any other one is a defect and shows its traceback.

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # the shells' code for Ctrl-C


class UsageFault(Invalid):
    """The command line is invalid; `usage` is the line that shows its form."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class LineFault:
    """What is wrong on one line of a file."""

    line: int
    text: str


class LineFaults(Invalid):
    """What is wrong in a file of which nothing was done; of many faults the first ones."""

    def __init__(self, path: str, faults: Sequence[LineFault], count: int) -> None:
        lines = [f"{path}:{fault.line}  {fault.text}" for fault in faults]
        if count > len(faults):
            lines.append(f"and {count - len(faults)} more")
        super().__init__("\n".join(lines))
        self.faults = faults


class CommandRefused(Refused):
    """A valid command was refused; `code` is the reason in one word."""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """The end of a failed command."""

    message: str
    code: str
    exit_code: int = EXIT_REFUSED
    text: str = ""  # on stderr instead of the message
    more: Mapping[str, Any] = field(default_factory=dict)  # further members of the JSON error


def explain(error: Exception) -> CommandFailure | None:
    """Return the failure of an exception; None for an unexpected one."""
    if isinstance(error, LineFaults):
        text, found = str(error), [{"line": one.line, "text": one.text} for one in error.faults]
        return CommandFailure(text, "invalid_file", EXIT_USAGE, text=text, more={"faults": found})
    if isinstance(error, Invalid):
        text = f"{error.usage if isinstance(error, UsageFault) else ''}error: {error}"
        return CommandFailure(str(error), "usage", EXIT_USAGE, text=text)
    if isinstance(error, ConfigFaults):
        more = {"faults": fault_records(error.faults)}
        return CommandFailure(
            str(error), "invalid_configuration", EXIT_USAGE, text=str(error), more=more
        )
    if isinstance(error, FolderFaults):
        faults = [{"file": one.file, "line": one.line, "text": one.text} for one in error.faults]
        text = str(error)
        return CommandFailure(text, "invalid_pages", EXIT_USAGE, text=text, more={"faults": faults})
    refusal = refusals.refusal_of(error)
    if refusal is not None:
        exit_code = EXIT_USAGE if isinstance(error, CapIsNeeded) else EXIT_REFUSED
        return CommandFailure(refusal.message, refusal.code, exit_code)
    for kind, (code, wording) in _WORDINGS.items():
        if isinstance(error, kind):
            return CommandFailure(wording.format(error), code)
    return None


def print_failure(failure: CommandFailure, *, as_json: bool) -> None:
    """Print a failure on stderr and, for programs, as one JSON object on stdout."""
    print(failure.text or f"error: {failure.message}", file=sys.stderr, flush=True)
    if as_json:
        error = {"message": failure.message, "code": failure.code, **failure.more}
        print_line(to_json({"error": error}))


# The first matching type is used, so special ones precede general ones.
_WORDINGS: Mapping[type[Exception], tuple[str, str]] = {
    ExportRefused: ("export_refused", "{}"),
    SecretFault: ("secret_unavailable", "{}"),
    EmbeddedFault: ("embedded_database", "{}"),
    MigrationFault: ("migration", "{}"),
    SessionsNotKept: ("database_pooler", "{}"),
    StoreError: ("database_refused", "the database refused the command: {}"),
    BucketFault: ("storage_failed", "the storage of source documents failed: {}"),
}


if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]

T = TypeVar("T")

_RFC3339 = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>(?!24)\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d))",
    re.ASCII,
)


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
    """Read `none` as None and any other text with `read`."""
    return lambda text: None if text == "none" else read(text)


def sha256_hex(text: str) -> bytes:
    """Read a SHA-256 as 64 hex digits into its 32 bytes."""
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        raise argparse.ArgumentTypeError("a SHA-256 is 64 hex digits")
    return bytes.fromhex(text)


# The options that name models, of keys, accounts and agents, read against the registry.


def add_model_options(parser: Parser) -> None:
    """Add the options of a list of allowed models, none, or all, which exclude each other."""
    models = parser.add_mutually_exclusive_group()
    models.add_argument(
        "--allow", metavar="MODEL", action="append", help="may be repeated; replaces the list"
    )
    models.add_argument("--allow-none", action="store_true", help="allow no model at all")
    models.add_argument("--allow-all", action="store_true", help="allow every model")


def names_models(options: Namespace) -> bool:
    """Whether any of the three is given."""
    return bool(options.allow or options.allow_none or options.allow_all)


def allowed_models(options: Namespace, registry: Registry) -> list[str] | None:
    """Return the list given by the options: None is every model. Raises Refused."""
    if options.allow_none:
        return []
    return canonical_models(options.allow, registry) if options.allow else None


def shown_models(allowed: Sequence[str] | None) -> str:
    """Return the list for people."""
    return "all" if allowed is None else ", ".join(allowed) or "none"


# The context of a command: the configuration, and the open database.
#
# It uses the database of a running gateway, or starts the embedded one for the command; both may
# use it at once.


@dataclass(frozen=True, slots=True)
class Context:
    """The configuration and services of one command."""

    config: Config
    database: Database

    def secret(self) -> Secret:
        """Return the secret of stored keys. Raises SecretFault."""
        config = self.config
        return load_secret(config.secret, config.data_dir, previous=config.previous_secret)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[tuple[Session, Actor]]:
        """Open a transaction, with the actor of its changes."""
        async with self.database.transaction() as session:
            yield session, Actor.of_this_process()

    async def in_force(self) -> None:
        """Return when committed changes apply in every running gateway (contract §1)."""
        await heard_by_all(self.database, token=secrets.token_hex(8))


Work = Callable[[Context, Namespace], Awaitable[Result]]
Check = Callable[[Namespace], None]


def with_database(work: Work, *, check: Check | None = None) -> Callable[[Namespace], Result]:
    """Return a command that reads the configuration, opens the database and calls `work`.

    `check` validates the options before anything is opened.
    """

    async def do(config: Config, options: Namespace) -> Result:
        async with opened(config) as context:
            return await work(context, options)

    def run(options: Namespace) -> Result:
        if check is not None:
            check(options)
        return asyncio.run(do(read_config(options), options))

    return run


def read_config(options: Namespace) -> Config:
    """Find and read the configuration file. Raises ConfigFaults."""
    return load(find_config(options), os.environ)


def find_config(options: Namespace) -> Path:
    """Return the path of the configuration file (contract §1). Raises ConfigFaults."""
    return find(getattr(options, "config", None), os.environ, Path.cwd())


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[Context]:
    """Open the database of `config`, migrated to this program's schema.

    Raises StoreError, EmbeddedFault, MigrationFault.
    """
    async with AsyncExitStack() as stack:
        dsn = config.database_url
        if not dsn:
            embedded = EmbeddedPostgres(config.data_dir)
            dsn = await embedded.start()
            stack.push_async_callback(embedded.stop)
        database = await stack.enter_async_context(Database(dsn, size=1))
        await migrate(database)
        yield Context(config, database)
