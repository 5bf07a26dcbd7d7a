"""Tool names and call ids that a target accepts, derived from invalid ones.

Clients of one protocol use names that another one forbids (too long, with dots or colons). The
derived name is always the same for the same name, so a call and its result still match; names are
restored in the response. Pure: no counters, no randomness.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from channels.translation.events import CallBegan, Event
from channels.translation.losses import LossReport, spelled
from channels.translation.model import Request, ToolCall

# The limit of an end user's id. Some providers refuse more than 128 characters, others more than
# 64.
USER_CHARACTERS_MAX = 64

# The member of one provider's protocols that is an end user's id besides `user`.
USER_EXTRA = "safety_identifier"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class IdentifierLimits:
    """Maximum lengths of names and ids; letters, digits, `_` and `-` are allowed everywhere."""

    name_characters_max: int
    id_characters_max: int

    def name(self, name: str) -> str:
        """Return a tool's name in the form that the target accepts."""
        return _fitted(name, self.name_characters_max)

    def call_id(self, call_id: str) -> str:
        """Return a call's id in the form that the target accepts."""
        return _fitted(call_id, self.id_characters_max)

    def names_back(self, request: Request) -> Mapping[str, str]:
        """Map the changed tool names of a request back to the client's own."""
        called = [
            part.name for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)
        ]
        if not (called or request.tools):
            return {}
        own = {tool.name: tool.own_name or tool.name for tool in request.tools}
        names = dict.fromkeys((*own, *called))
        found = {self.name(name): own.get(name, name) for name in names}
        return {fitted: name for fitted, name in found.items() if fitted != name}


def user_fitted(request: Request, report: LossReport) -> Request:
    """Return the request with an end user's id that every target accepts (reference 3.3).

    An id of more than 64 characters becomes its SHA-256 in hexadecimal, which has 64: it is stable
    for one user, and `report` names the member. `safety_identifier` is such an id as well.
    """
    if request.user is not None and len(request.user) > USER_CHARACTERS_MAX:
        report.drop(spelled(request.origin, "user"))
        request = replace(request, user=_digest(request.user, USER_CHARACTERS_MAX))
    identifier = request.extras.get(USER_EXTRA)
    if isinstance(identifier, str) and len(identifier) > USER_CHARACTERS_MAX:
        report.drop(USER_EXTRA)
        fitted = _digest(identifier, USER_CHARACTERS_MAX)
        request = replace(request, extras={**request.extras, USER_EXTRA: fitted})
    return request


# The member that names a conversation to a provider's cache of prompts.
CACHE_KEY = "prompt_cache_key"
# Longer ones are refused.
CACHE_KEY_CHARACTERS_MAX = 64


def cache_key_of(request: Request, report: LossReport, beside: str | None) -> str | None:
    """Return the key for the upstream's cache: the client's, else its name `beside` the body.

    `beside` is None for an upstream that takes none, and empty if the headers name no conversation.
    A longer key becomes its SHA-256, which is the same for the same conversation.
    """
    if beside is None:
        return None
    stated = request.extras.get(CACHE_KEY)
    key = stated if isinstance(stated, str) and stated else beside
    if len(key) > CACHE_KEY_CHARACTERS_MAX:
        if key is stated:
            report.drop(CACHE_KEY)
        key = _digest(key, CACHE_KEY_CHARACTERS_MAX)
    return key or None


def event_renamed(event: Event, names: Mapping[str, str]) -> Event:
    """Return an event with the client's own tool names, by the map of `names_back`."""
    if isinstance(event, CallBegan) and event.name in names:
        return replace(event, name=names[event.name])
    return event


def made_id(*seeds: str) -> str:
    """Derive an id for a call without one; deterministic."""
    return "call_" + _digest("\0".join(seeds), 24)


def _fitted(text: str, limit: int) -> str:
    if text and len(text) <= limit and _FORBIDDEN.search(text) is None:
        return text
    # The hash keeps names distinct that truncation and replacement would make equal.
    digest = _digest(text, 8)
    return f"{_FORBIDDEN.sub('_', text)[: limit - len(digest) - 1]}_{digest}"


def _digest(text: str, size: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:size]
