"""The chat dialect as providers have it that refuse parts of it, instead of passing them over.

Mistral answers 422 for every member that it does not document, in the body or in a turn, so also
for the asking for usage, which its streams state unasked; its tool calls have ids of nine letters
and digits, and other ids of calls in the history are a 400.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.address import Address
from channels.dialects.hosting import Hosting
from channels.json.text import UNREADABLE, dumps

_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
# What turns of assistants hold that other providers gave; a client sends them as it got them.
_FOREIGN = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "annotations",
    "audio",
    "function_call",
)


class _Call(Struct):
    id: str | None = None


class _Turn(Struct):
    """What decides whether a turn has to be changed."""

    role: str
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: Any = msgspec.UNSET
    reasoning: Any = msgspec.UNSET
    reasoning_details: Any = msgspec.UNSET
    refusal: Any = msgspec.UNSET
    annotations: Any = msgspec.UNSET
    audio: Any = msgspec.UNSET
    function_call: Any = msgspec.UNSET

    @property
    def is_acceptable(self) -> bool:
        """Whether it goes out as it is."""
        ids = [call.id for call in self.tool_calls or ()]
        ids.append(self.tool_call_id)
        return all(one is None or _CALL_ID.fullmatch(one) for one in ids) and not (
            self.role == "assistant"
            and any(getattr(self, name) is not msgspec.UNSET for name in _FOREIGN)
        )


_TURNS = msgspec.json.Decoder(list[_Turn])


def for_mistral(messages: bytes) -> bytes:
    """The JSON of `messages` as Mistral takes them; the same bytes where it does already.

    What cannot be read is left to the upstream to judge.
    """
    try:
        if all(turn.is_acceptable for turn in _TURNS.decode(messages)):
            return messages
        turns = msgspec.json.decode(messages, type=list[dict[str, Any]])
        return dumps([_turn_for_mistral(turn) for turn in turns])
    except UNREADABLE:
        return messages


def _turn_for_mistral(turn: dict[str, Any]) -> dict[str, Any]:
    if turn.get("role") == "assistant":
        turn = {name: value for name, value in turn.items() if name not in _FOREIGN}
    if isinstance(turn.get("tool_call_id"), str):
        turn["tool_call_id"] = call_id_for_mistral(turn["tool_call_id"])
    for call in turn.get("tool_calls") or ():
        if isinstance(call.get("id"), str):
            call["id"] = call_id_for_mistral(call["id"])
    return turn


def call_id_for_mistral(call_id: str) -> str:
    """Nine letters and digits for the id of a call: always the same for one, others for others."""
    if _CALL_ID.fullmatch(call_id):
        return call_id
    return blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()[:9]


HOSTINGS: Mapping[str, Hosting] = MappingProxyType(
    {
        "mistral": Hosting(
            address=Address(path="/v1/chat/completions"),
            without=frozenset({"stream_options", "user"}),
            adds={},
            moves={},
            renames={"seed": "random_seed"},
            mends={"messages": for_mistral},
        ),
    }
)
