"""What is told of a provider: its faces (one per protocol), how it fails, its list of models.

Only data here, and what a table row needs to be short; how a face is played is `face.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.base import Dialect

# What may become of a request, beside an answer: a word of the directive `situation`. A face has
# those that its provider documents or is known for; there may be others of its own.
SITUATIONS: Final = (
    "no_key",
    "bad_key",
    "no_credit",
    "forbidden",
    "unknown_model",
    "bad_parameter",
    "context_too_long",
    "content_filter",
    "rate_limited",
    "server_error",
    "overloaded",
)
# How a key is sent: as a bearer's token, or in a header of this name; by some no key is wanted.
BEARER: Final = "bearer"
ANYBODY: Final = "anybody"
WRONG_KEY: Final = "wrong-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error answer as it goes out. `body` is JSON, a text as it is, None for an empty body.

    `{model}`, `{param}` and `{key}` in its texts stand for the request's model, the parameter at
    fault and the key that was sent, for some repeat it.
    """

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


# What is wrong with a request (its body, and as it was read): a failure and the parameter at fault.
Check = Callable[[Mapping[str, Any], Ask], tuple[Failure, str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One protocol of a provider.

    `path` is whole, or a pattern that matches a whole one. `keys` are the ways in
    which a key is taken, `stream_failure` the text of the events by which a stream that has begun
    tells of an error (None: the dialect's own), `checks` what it looks at before it answers.
    `counts_cached`: its usage says how much of the input was read from a cache.
    """

    path: str | re.Pattern[str]
    dialect: Dialect
    keys: tuple[str, ...] = (BEARER,)
    failures: Mapping[str, Failure]
    stream_failure: str | None = None
    checks: tuple[Check, ...] = ()
    counts_cached: bool = True

    def is_at(self, path: str) -> bool:
        """Whether a path is this face's."""
        if isinstance(self.path, str):
            return path == self.path
        return self.path.fullmatch(path) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The list of models: where it is, and what it says of a model."""

    path: str = "/v1/models"
    keys: tuple[str, ...] = (BEARER,)
    entry: Callable[[str], Any] = lambda model: {
        "id": model,
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "provider",
    }
    whole: Callable[[list[Any]], Any] = lambda entries: {"object": "list", "data": entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. `name` is the `kind` of its channels; `sources` say where its facts are from.

    `models` are those it has, the first one for ordinary tests; `headers` stand on every answer
    that is no error.
    """

    name: str
    sources: Mapping[str, str]
    faces: tuple[Face, ...]
    models: tuple[str, ...]
    listing: Listing | None = Listing()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Provider {self.name}>"


def only(failure: Failure, *known: str) -> Check:
    """The body has no members but these."""
    names = frozenset(known)

    def check(body: Mapping[str, Any], _: Ask) -> tuple[Failure, str] | None:
        unknown = next((name for name in body if name not in names), None)
        return None if unknown is None else (failure, unknown)

    return check


def refuses(failure: Failure, *names: str, models: tuple[str, ...] = ()) -> Check:
    """The body has none of these members, if it is for one of these models (none: for any)."""

    def check(body: Mapping[str, Any], ask: Ask) -> tuple[Failure, str] | None:
        if models and ask.model not in models:
            return None
        found = next((name for name in names if body.get(name) is not None), None)
        return None if found is None else (failure, found)

    return check


def refuses_of_assistants(failure: Failure, *names: str) -> Check:
    """No turn of an assistant has one of these members."""

    def check(body: Mapping[str, Any], _: Ask) -> tuple[Failure, str] | None:
        turns = (turn for turn in body["messages"] if turn["role"] == "assistant")
        found = next((name for turn in turns for name in names if name in turn), None)
        return None if found is None else (failure, found)

    return check
