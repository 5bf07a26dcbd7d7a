"""What a command says when it cannot do its work: a message, a code, an exit code.

Every exception that is no fault of this program has its line here; any other one is ours and shows
its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.media_store.s3_client import BucketFault
from actors.store.database import StoreError, StoreUnavailable
from actors.store.embedded import EmbeddedFault
from actors.store.migrations import MigrationFault
from actors.wallet.ledger import UnknownAccount
from gw.agents.store import UnknownAgent
from gw.cli.output import print_line, to_json
from gw.config.faults import ConfigFaults, fault_records
from gw.keys.issue import NotRevealable
from gw.keys.requests import RequestIsDecided, UnknownRequest
from gw.keys.secret import WrongSecret
from gw.keys.secret_file import SecretFault
from gw.keys.store import CapIsNeeded, HashIsTaken, KeyIsRevoked, UnknownKey
from gw.knowledge.bases import UnknownBase
from gw.knowledge.exporting import ExportRefused
from gw.knowledge.faults import FolderFaults

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # as shells say of a command that Ctrl-C ended


class UsageFault(Exception):
    """The command line cannot be understood; `usage` is the line that shows how it is written."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class CommandRefused(Exception):
    """The command was understood and not done; `code` says why in one word."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """How a command ends that did not do its work."""

    message: str
    code: str
    exit_code: int = EXIT_REFUSED
    text: str = ""  # what stderr says instead of the message
    more: Mapping[str, Any] = field(default_factory=dict)  # further members of the JSON error


def explain(error: Exception) -> CommandFailure | None:
    """Put an exception into words; None for one that should not have come."""
    if isinstance(error, UsageFault):
        text = f"{error.usage}error: {error}"
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
    if isinstance(error, CommandRefused):
        return CommandFailure(str(error), error.code)
    if isinstance(error, CapIsNeeded):
        text = f"the key {error} was requested, and such keys keep a spend cap"
        return CommandFailure(text, "usage", EXIT_USAGE)
    for kind, (code, wording) in _WORDINGS.items():
        if isinstance(error, kind):
            return CommandFailure(wording.format(error), code)
    return None


def print_failure(failure: CommandFailure, *, as_json: bool) -> None:
    """Say it on stderr and, for programs, with one JSON object on stdout."""
    print(failure.text or f"error: {failure.message}", file=sys.stderr, flush=True)
    if as_json:
        error = {"message": failure.message, "code": failure.code, **failure.more}
        print_line(to_json({"error": error}))


# The first kind that fits is taken, so that the special ones stand before the general ones.
_WORDINGS: Mapping[type[Exception], tuple[str, str]] = {
    UnknownAccount: ("account_not_found", "there is no account {}"),
    UnknownKey: ("key_not_found", "there is no key {}"),
    KeyIsRevoked: ("key_revoked", "the key {} is revoked, and revocation is for good"),
    HashIsTaken: ("key_exists", "a key with this hash has been imported before"),
    NotRevealable: (
        "key_not_revealable",
        "the key {} is stored as a hash only and cannot be revealed",
    ),
    UnknownAgent: ("agent_not_found", "there is no agent {}"),
    UnknownRequest: ("request_not_found", "there is no request {}"),
    RequestIsDecided: ("request_decided", "the request {} has been approved or rejected before"),
    UnknownBase: ("kb_not_found", "the account has no knowledge base {}"),
    ExportRefused: ("export_refused", "{}"),
    WrongSecret: ("wrong_secret", "{}"),
    SecretFault: ("secret_unavailable", "{}"),
    EmbeddedFault: ("embedded_database", "{}"),
    MigrationFault: ("migration", "{}"),
    StoreUnavailable: ("database_unavailable", "the database cannot be reached: {}"),
    StoreError: ("database_refused", "the database refused the command: {}"),
    BucketFault: ("storage_failed", "the storage of source documents failed: {}"),
}
