"""Values given by operators: their types in JSON, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from actors.wallet.money import MoneyError, parse_usd
from channels.data_promise import InvalidDemand, read_demand
from channels.registry import ModelSpec, Registry
from gw import instants
from gw.config.suggestions import closest
from gw.nouns.refused import Invalid, Refused

LABEL_MAX = 200
# The range of the column; a limit that large is none anyway.
COUNT_MAX = 2**31 - 1
PROMPT_BYTES_MAX = 64 * 1024
REASON_CHARACTERS_MAX = 500
# Unknown models listed in an error, each with a suggestion.
UNKNOWN_NAMED = 5

# The length of a list of models, and of an agent's knowledge bases.
MODELS_MAX = 500
BASES_MAX = 100

DEMAND_CHARACTERS_MAX = 100
# Shares of a limit at which something is reported.
PERCENT_MAX = 100
PERCENTS_MAX = 5

_USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")

Name = Annotated[str, Meta(min_length=1, max_length=LABEL_MAX)]
Id = Annotated[str, Meta(pattern=r"\A[!-~]{1,100}\Z")]
User = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._@-]{1,64}\Z")]
Model = Annotated[str, Meta(min_length=1, max_length=LABEL_MAX)]
Models = Annotated[list[Model], Meta(max_length=MODELS_MAX)]
Usd = Annotated[str, Meta(pattern=r"\A[0-9]{1,10}(\.[0-9]{1,9})?\Z", description="Decimal USD")]
SignedUsd = Annotated[
    str, Meta(pattern=r"\A-?[0-9]{1,10}(\.[0-9]{1,9})?\Z", description="Decimal USD, negative too")
]
Subject = Annotated[str, Meta(min_length=1, max_length=256)]
Reason = Annotated[str, Meta(min_length=1, max_length=REASON_CHARACTERS_MAX)]
AMOUNTS_MAX = 5
Amounts = Annotated[list[Usd], Meta(max_length=AMOUNTS_MAX)]
Percents = Annotated[
    list[Annotated[int, Meta(ge=1, le=PERCENT_MAX)]], Meta(max_length=PERCENTS_MAX)
]
Limit = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Prompt = Annotated[str, Meta(min_length=1, max_length=PROMPT_BYTES_MAX)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
BaseId = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9._-]{0,63}\Z")]
Bases = Annotated[list[BaseId], Meta(max_length=BASES_MAX)]
Demand = Annotated[
    str, Meta(min_length=1, max_length=DEMAND_CHARACTERS_MAX, description="A demand for data")
]
# An instant with its zone: shown in UTC, accepted in any zone.
Instant = Annotated[datetime, Meta(tz=True)]


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


def amounts(texts: Sequence[str]) -> list[int]:
    """Read a few non-negative amounts in USD as nano-USD, each once, the greatest first.

    Raises Invalid.
    """
    found = sorted({usd_or_more(text) for text in texts}, reverse=True)
    if len(found) > AMOUNTS_MAX:
        raise Invalid(f"{len(found)} amounts: at most {AMOUNTS_MAX}")
    return found


def count(text: str) -> int:
    """Read an integer from 1. Raises Invalid."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_MAX))
    if not is_number or not 1 <= int(text) <= COUNT_MAX:
        raise Invalid(f"{text[:40]!a} is not a whole number from 1 on")
    return int(text)


def demand(text: str) -> str:
    """Read a demand for data, such as `region=eu; retention=0`. Raises Invalid."""
    try:
        return str(read_demand(text))
    except InvalidDemand as error:
        raise Invalid(f"{text[:DEMAND_CHARACTERS_MAX]!a} is not {error}") from error


def percent(text: str) -> int:
    """Read a whole percent from 1 to 100. Raises Invalid."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(PERCENT_MAX))
    if not is_number or not 1 <= int(text) <= PERCENT_MAX:
        raise Invalid(f"{text[:40]!a} is not a whole percent from 1 to {PERCENT_MAX}")
    return int(text)


def percents(given: Sequence[int]) -> list[int]:
    """Return a few percents, each once and in order. Raises Invalid."""
    found = sorted(set(given))
    if len(found) > PERCENTS_MAX:
        raise Invalid(f"{len(found)} percents are more than {PERCENTS_MAX}")
    return found


def temperature(text: str) -> float:
    """Read a sampling temperature from 0 to 2. Raises Invalid."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2:  # also refuses NaN
        raise Invalid(f"{text!a} is not a number from 0 to 2")
    return value


def instant(text: str) -> datetime:
    """Read an RFC 3339 time, such as 2027-01-31T12:00:00Z, possibly in the past. Raises Invalid."""
    try:
        return instants.read_instant(text, is_exact=True)
    except instants.NotAnInstant as error:
        raise Invalid(f"{text!a} is not an RFC 3339 time such as 2027-01-31T12:00:00Z") from error


def day_or_instant(text: str) -> datetime:
    """Read a day, as its first instant, or an RFC 3339 time. Raises Invalid."""
    try:
        day = instants.read_date(text)
        return instants.read_instant(text) if day is None else instants.midnight(day)
    except instants.NotAnInstant as error:
        raise Invalid(f"{text[:40]} is not a day such as 2027-01-31, nor an instant") from error


def prompt_file(path: str) -> str:
    """Read a system prompt from a file in UTF-8. Raises Invalid."""
    try:
        with open(path, "rb") as file:
            content = file.read(PROMPT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"{path} cannot be read: {reason}") from error
    if len(content) > PROMPT_BYTES_MAX:
        raise Invalid(f"{path} has more than {PROMPT_BYTES_MAX} bytes")
    try:
        return prompt(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8") from error


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


def chat_model(registry: Registry, name: str) -> ModelSpec | None:
    """Return the callable chat model of an id or alias, or None."""
    model = registry.resolve(name)
    if model is None or not model.callable or model.endpoint_type is not None:
        return None
    return model


def read_model(name: str, registry: Registry) -> str:
    """Return the id of a model by its id or alias. Raises Invalid with a suggestion."""
    model = registry.resolve(name)
    if model is None:
        raise Invalid(_unknown(name, registry))
    return model.id


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
