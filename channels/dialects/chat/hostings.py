"""Variants of the chat dialect for providers that refuse parts of it instead of ignoring them.

Mistral answers 422 for every undocumented member of the body or a turn, including the request for
usage, which its streams state by default; its tool calls have ids of nine letters and digits, and
other ids of calls in the history are a 400. Groq and Fireworks answer 400 for thoughts in a turn
that are not in their own form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType

import msgspec
from msgspec import Struct

from channels.dialects.address import Address
from channels.dialects.hosting import Hosting
from channels.json.lenient import UNREADABLE, dumps

_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
# Members of assistants' turns by other providers, which clients return as received.
_FOREIGN_TO_GROQ = frozenset({"reasoning_content", "reasoning_details", "refusal", "annotations"})
_FOREIGN_TO_FIREWORKS = frozenset({"reasoning", "reasoning_details", "refusal", "annotations"})
_FOREIGN_TO_MISTRAL = _FOREIGN_TO_GROQ | {"reasoning", "audio", "function_call"}


class _SentCall(Struct):
    id: str | None = None


class _SentTurn(Struct):
    """The members that decide whether a turn has to be changed."""

    role: str
    tool_calls: list[_SentCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: object = msgspec.UNSET
    reasoning: object = msgspec.UNSET
    reasoning_details: object = msgspec.UNSET
    refusal: object = msgspec.UNSET
    annotations: object = msgspec.UNSET
    audio: object = msgspec.UNSET
    function_call: object = msgspec.UNSET

    def has_any(self, names: Iterable[str]) -> bool:
        """Whether an assistant's turn has one of these members."""
        stated = (getattr(self, name) is not msgspec.UNSET for name in names)
        return self.role == "assistant" and any(stated)

    @property
    def has_other_ids(self) -> bool:
        """Whether a call has an id that Mistral refuses."""
        ids = [call.id for call in self.tool_calls or ()]
        ids.append(self.tool_call_id)
        return not all(one is None or _CALL_ID.fullmatch(one) for one in ids)


_TURNS = msgspec.json.Decoder(list[_SentTurn])


def for_mistral(messages: bytes) -> bytes:
    """Return the JSON of `messages` in the form for Mistral; unchanged if it is valid already.

    Unreadable JSON is left to the upstream.
    """

    def is_acceptable(turn: _SentTurn) -> bool:
        return not (turn.has_any(_FOREIGN_TO_MISTRAL) or turn.has_other_ids)

    return _mended(messages, is_acceptable, _turn_for_mistral)


def for_groq(messages: bytes) -> bytes:
    """Return the JSON of `messages` in the form for Groq."""
    return _stripped(messages, _FOREIGN_TO_GROQ)


def for_fireworks(messages: bytes) -> bytes:
    """Return the JSON of `messages` in the form for Fireworks."""
    return _stripped(messages, _FOREIGN_TO_FIREWORKS)


def _stripped(messages: bytes, foreign: frozenset[str]) -> bytes:
    return _mended(
        messages, lambda turn: not turn.has_any(foreign), lambda turn: _without(turn, foreign)
    )


def _mended(
    messages: bytes,
    is_acceptable: Callable[[_SentTurn], bool],
    mend: Callable[[dict[str, object]], dict[str, object]],
) -> bytes:
    try:
        if all(map(is_acceptable, _TURNS.decode(messages))):
            return messages
        turns = msgspec.json.decode(messages, type=list[dict[str, object]])
        return dumps([mend(turn) for turn in turns])
    except UNREADABLE:
        return messages


def _without(turn: dict[str, object], names: Container[str]) -> dict[str, object]:
    if turn.get("role") != "assistant":
        return turn
    return {name: value for name, value in turn.items() if name not in names}


def _turn_for_mistral(turn: dict[str, object]) -> dict[str, object]:
    turn = _without(turn, _FOREIGN_TO_MISTRAL)
    if isinstance(call_id := turn.get("tool_call_id"), str):
        turn["tool_call_id"] = call_id_for_mistral(call_id)
    calls = turn.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call_id := call.get("id"), str):
            call["id"] = call_id_for_mistral(call_id)
    return turn


def call_id_for_mistral(call_id: str) -> str:
    """Derive nine letters and digits from the id of a call, deterministically."""
    if _CALL_ID.fullmatch(call_id):
        return call_id
    return blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()[:9]


_ADDRESS = Address(path="/v1/chat/completions")
HOSTINGS: Mapping[str, Hosting] = MappingProxyType(
    {
        "mistral": Hosting(
            address=_ADDRESS,
            without=frozenset({"stream_options", "user"}),
            adds={},
            moves={},
            renames={"seed": "random_seed"},
            mends={"messages": for_mistral},
        ),
        "groq": Hosting(
            address=_ADDRESS,
            without=frozenset(),
            adds={},
            moves={},
            mends={"messages": for_groq},
        ),
        "fireworks": Hosting(
            address=_ADDRESS,
            without=frozenset(),
            adds={},
            moves={},
            mends={"messages": for_fireworks},
        ),
    }
)
