"""Values given by operators, and refusals: common to commands, the admin API and pages."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from actors.store.connection import DatabaseRefused, StatementRefused, StoreUnavailable
from actors.wallet.ledger import BalanceOutOfRange, UnknownAccount
from actors.wallet.pricing import MoneyError, parse_usd
from channels.registry import Registry
from gw.agents import UnknownAgent, chat_model
from gw.config.readers import closest
from gw.keys.issue import NotRevealable, RequestIsDecided, UnknownRequest
from gw.keys.secret import WrongSecret
from gw.keys.store import (
    CapIsNeeded,
    HashIsTaken,
    KeyIsLocked,
    KeyIsRevoked,
    TooManyKeys,
    UnknownKey,
)
from gw.knowledge.reading import UnknownBase

# The refusals of an operator's request: one table for the command line, the admin API and pages.
#
# `Invalid` is a fault of the request itself; `Refused`, or an exception of the room that refused
# it, is a conflict with the current state.


class Refused(Exception):
    """A valid request was refused; `code` is the reason in one word."""

    def __init__(self, message: str, code: str, *, http_status: int = 409) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status


class Invalid(Exception):
    """The request is invalid, whatever the state of the database."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request as a message."""

    code: str
    message: str
    http_status: int


# The first matching type is used, so special ones precede general ones.
_WORDINGS: Mapping[type[Exception], tuple[int, str, str]] = {
    Invalid: (400, "invalid_request", "{}"),
    UnknownAccount: (404, "account_not_found", "there is no account {}"),
    UnknownKey: (404, "key_not_found", "there is no key {}"),
    UnknownAgent: (404, "agent_not_found", "there is no agent {}"),
    UnknownRequest: (404, "request_not_found", "there is no request {}"),
    UnknownBase: (404, "kb_not_found", "the account has no knowledge base {}"),
    KeyIsRevoked: (409, "key_revoked", "the key {} is revoked, and revocation is for good"),
    TooManyKeys: (409, "too_many_keys", "the account {} has as many keys as one may have"),
    KeyIsLocked: (403, "key_locked", "an operator has disabled the key {}, and alone enables it"),
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
    DatabaseRefused: (503, "database_unavailable", "the database refuses every such command: {}"),
    StoreUnavailable: (503, "database_unavailable", "the database cannot be reached: {}"),
    BalanceOutOfRange: (
        400,
        "balance_out_of_range",
        "the balance of {} would be more than the ledger holds",
    ),
    StatementRefused: (422, "database_refused", "the database refused the command: {}"),
}


def explain(error: Exception) -> Refusal | None:
    """Return the refusal of an exception; None for an unexpected one."""
    if isinstance(error, Refused):
        return Refusal(error.code, str(error), error.http_status)
    for kind, (http_status, code, wording) in _WORDINGS.items():
        if isinstance(error, kind):
            return Refusal(code, wording.format(error), http_status)
    return None


LABEL_MAX = 200
# The range of the column; a limit that large is none anyway.
COUNT_MAX = 2**31 - 1
PROMPT_BYTES_MAX = 64 * 1024
REASON_CHARACTERS_MAX = 500
# Unknown models listed in an error, each with a suggestion.
UNKNOWN_NAMED = 5

_USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


def label(text: str) -> str:
    """Read a name: up to 200 printable characters, not only spaces. Raises Invalid."""
    name = text.strip()
    if not name:
        raise Invalid("a name is needed")
    if len(name) > LABEL_MAX or not name.isprintable():
        raise Invalid(f"a name is at most {LABEL_MAX} printable characters")
    return name


def user_name(text: str) -> str:
    """Read the name of a user of an account. Raises Invalid."""
    if not _USER_NAME.fullmatch(text):
        raise Invalid(f"{text!a} is not a name of a user: 1 to 64 of A-Z a-z 0-9 . _ @ -")
    return text


def identifier(text: str) -> str:
    """Read an id, without looking it up. Raises Invalid."""
    if not (text.isascii() and text.isprintable() and text):
        raise Invalid(f"{text!a} is not an id")
    return text


def usd(text: str) -> int:
    """Read an amount in USD, possibly negative, as nano-USD. Raises Invalid."""
    try:
        return parse_usd(text)
    except MoneyError as error:
        raise Invalid(str(error)) from error


def usd_or_more(text: str) -> int:
    """Read a non-negative amount in USD as nano-USD. Raises Invalid."""
    amount = usd(text)
    if amount < 0:
        raise Invalid(f"{text} is negative")
    return amount


def read_reason(text: str) -> str:
    """Read why something is done: a line of text. Raises Invalid."""
    found = text.strip()
    if not found or len(found) > REASON_CHARACTERS_MAX or not found.isprintable():
        raise Invalid(f"a reason is 1 to {REASON_CHARACTERS_MAX} printable characters")
    return found


def prompt(text: str) -> str:
    """Read a system prompt. Raises Invalid."""
    if len(text.encode()) > PROMPT_BYTES_MAX:
        raise Invalid(f"system prompt: it has more than {PROMPT_BYTES_MAX} bytes")
    if not text.strip():
        raise Invalid("system prompt: it is empty")
    if "\0" in text:  # which PostgreSQL does not store
        raise Invalid("system prompt: it has a NUL character")
    return text


def canonical_models(names: Sequence[str], registry: Registry) -> list[str]:
    """Return distinct ids of ids and aliases. Raises Refused with suggestions for unknown ones."""
    unknown = [name for name in dict.fromkeys(names) if registry.resolve(name) is None]
    if unknown:
        raise Refused(
            "; ".join(_unknown(name, registry) for name in unknown[:UNKNOWN_NAMED]),
            "model_not_found",
            http_status=400,
        )
    found = (registry.resolve(name) for name in names)
    return list(dict.fromkeys(model.id for model in found if model is not None))


def read_chat_model(name: str | None, registry: Registry) -> str | None:
    """Return the id of a chat model for an agent; None stays None. Raises Invalid."""
    if name is None:
        return None
    model = chat_model(registry, name)
    if model is not None:
        return model.id
    if registry.resolve(name) is None:
        raise Invalid(_unknown(name, registry))
    raise Invalid(f"{name} is not a chat model that can be called")


def _unknown(name: str, registry: Registry) -> str:
    names = [*registry.models, *(alias for m in registry.models.values() for alias in m.aliases)]
    guess = closest(name, names)
    return f"there is no model {name}" + (f", did you mean {guess}?" if guess else "")


# Pagination of lists: the length of a page, and the cursor of the next one.

PAGE_DEFAULT = 50
PAGE_MAX = 200
CURSOR_CHARACTERS_MAX = 400

# An instant with its zone: shown in UTC, accepted in any zone.
Instant = Annotated[datetime, Meta(tz=True)]

T = TypeVar("T")
P = TypeVar("P")


class Page(Struct, Generic[T], frozen=True):
    """Some rows of a list. `next_cursor`: the cursor of the next page, null at the end."""

    data: list[T]
    next_cursor: str | None


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a page: its length and its cursor."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    cursor: Annotated[str, Meta(max_length=CURSOR_CHARACTERS_MAX)] | None = None

    def position(self, kind: type[P]) -> P | None:
        """Return the position in the cursor; None at the beginning. Raises Invalid."""
        if self.cursor is None:
            return None
        try:
            body = base64.b64decode(
                self.cursor.encode() + b"=" * (-len(self.cursor) % 4), b"-_", validate=True
            )
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, binascii.Error, UnicodeEncodeError, RecursionError):
            raise Invalid("cursor: this is none of this list") from None


class Position(Struct, frozen=True, array_like=True):
    """A position in a list by age: after the row of this instant and id."""

    at: datetime
    id: Annotated[str, Meta(max_length=200, pattern=r"^[ -~]+$")]


def after(query: PageQuery) -> dict[str, Any]:
    """Return the parameters of a statement that lists by age. Raises Invalid."""
    position = query.position(Position)
    at, last_id = (None, None) if position is None else (position.at, position.id)
    return {"at": at, "id": last_id, "limit": query.limit + 1}


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], Any]) -> Page[T]:
    """Return a page of rows, which were read with one more than `limit`."""
    kept = list(rows[:limit])
    cursor = cursor_of(position(kept[-1])) if len(rows) > limit else None
    return Page(kept, cursor)


def cursor_of(position: Any) -> str:
    """Return the text of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()
