"""The failure of a command: a message, a code, an exit code.

Every expected exception has its line here; any other one is a defect and shows its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.media_store.bucket import BucketFault
from actors.store.embedded.errors import EmbeddedFault
from actors.store.errors import SessionsNotKept, StoreError
from actors.store.schema import MigrationFault
from gw.admin import refusals
from gw.cli.output import print_line, to_json
from gw.config.faults import ConfigFaults, fault_records
from gw.keys.secret_file import SecretFault
from gw.keys.store import CapIsNeeded
from gw.knowledge.exporting import ExportRefused
from gw.knowledge.pages import FolderFaults
from gw.nouns.refused import Invalid, Refused

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


def failure_of(error: Exception) -> CommandFailure | None:
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
