"""Why an operator's request is not done: one table for the command line, the admin API and pages.

What is wrong with the request itself is `Invalid`; what was understood and not done is `Refused`,
or an exception of the room that refused it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.store.connection import StatementRefused, StoreUnavailable
from actors.wallet.ledger import UnknownAccount
from gw.agents import UnknownAgent
from gw.keys.issue import NotRevealable, RequestIsDecided, UnknownRequest
from gw.keys.secret import WrongSecret
from gw.keys.store import CapIsNeeded, HashIsTaken, KeyIsRevoked, UnknownKey
from gw.knowledge.reading import UnknownBase


class Refused(Exception):
    """The request was understood and not done; `code` is the reason in one word."""

    def __init__(self, message: str, code: str, *, http_status: int = 409) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status


class Invalid(Exception):
    """The request cannot be carried out as it is written, whatever the database has."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was not done, in words."""

    code: str
    message: str
    http_status: int


# The first kind that fits is taken, so that the special ones stand before the general ones.
_WORDINGS: Mapping[type[Exception], tuple[int, str, str]] = {
    Invalid: (400, "invalid_request", "{}"),
    UnknownAccount: (404, "account_not_found", "there is no account {}"),
    UnknownKey: (404, "key_not_found", "there is no key {}"),
    UnknownAgent: (404, "agent_not_found", "there is no agent {}"),
    UnknownRequest: (404, "request_not_found", "there is no request {}"),
    UnknownBase: (404, "kb_not_found", "the account has no knowledge base {}"),
    KeyIsRevoked: (409, "key_revoked", "the key {} is revoked, and revocation is for good"),
    HashIsTaken: (409, "key_exists", "a key with this hash has been imported before"),
    NotRevealable: (
        409,
        "key_not_revealable",
        "the key {} is stored as a hash only and cannot be revealed",
    ),
    CapIsNeeded: (400, "usage", "the key {} was requested, and such keys keep a spend cap"),
    RequestIsDecided: (
        409,
        "request_decided",
        "the request {} has been approved or rejected before",
    ),
    WrongSecret: (503, "wrong_secret", "{}"),
    StoreUnavailable: (503, "database_unavailable", "the database cannot be reached: {}"),
    # An amount that the ledger's columns cannot hold, and nothing else that a request contains.
    StatementRefused: (422, "database_refused", "the database refused the command: {}"),
}


def explain(error: Exception) -> Refusal | None:
    """Put an exception into words; None for one that should not have come."""
    if isinstance(error, Refused):
        return Refusal(error.code, str(error), error.http_status)
    for kind, (http_status, code, wording) in _WORDINGS.items():
        if isinstance(error, kind):
            return Refusal(code, wording.format(error), http_status)
    return None
