"""Tool names and call ids that a target accepts, made from those it would refuse.

Clients of one protocol use names another one forbids (too long, with dots or colons). What is made
instead is always the same for the same name, so a call and its result still match; names are
mapped back in the response. Pure: no counters, no randomness.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from channels.translation.model import CallBegan, Event, Request, Response, ToolCall

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class IdentifierLimits:
    """How long names and ids may be; letters, digits, `_` and `-` are what all accept."""

    name_characters_max: int
    id_characters_max: int

    def name(self, name: str) -> str:
        """A tool's name as the target accepts it."""
        return _fitted(name, self.name_characters_max)

    def call_id(self, call_id: str) -> str:
        """A call's id as the target accepts it."""
        return _fitted(call_id, self.id_characters_max)

    def names_back(self, request: Request) -> Mapping[str, str]:
        """The changed tool names of a request: as the target knows them, to the client's own."""
        names = [tool.name for tool in request.tools]
        names += [
            part.name for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)
        ]
        return {self.name(name): name for name in names if self.name(name) != name}


def event_renamed(event: Event, names: Mapping[str, str]) -> Event:
    """An event under the client's own tool names, as `names_back` gave them."""
    if isinstance(event, CallBegan) and event.name in names:
        return replace(event, name=names[event.name])
    return event


def response_renamed(response: Response, names: Mapping[str, str]) -> Response:
    """A whole response under the client's own tool names."""
    parts = tuple(
        replace(part, name=names[part.name])
        if isinstance(part, ToolCall) and part.name in names
        else part
        for part in response.parts
    )
    return replace(response, parts=parts)


def made_id(*seeds: str) -> str:
    """An id for a call that came without one; the same for the same seeds."""
    return "call_" + _digest("\0".join(seeds), 24)


def _fitted(text: str, limit: int) -> str:
    if text and len(text) <= limit and _FORBIDDEN.search(text) is None:
        return text
    # The hash keeps apart what the cutting and the replacing would make alike.
    digest = _digest(text, 8)
    return f"{_FORBIDDEN.sub('_', text)[: limit - len(digest) - 1]}_{digest}"


def _digest(text: str, size: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:size]
