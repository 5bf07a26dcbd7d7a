"""Values given by operators, read: common to commands, the admin API and the console."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from actors.wallet.money import MoneyError, parse_usd
from channels.registry import Registry
from gw.admin.refusals import Invalid, Refused
from gw.agents.permission import chat_model
from gw.config.suggestions import closest

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


# An instant with its zone: shown in UTC, accepted in any zone.
Instant = Annotated[datetime, Meta(tz=True)]
