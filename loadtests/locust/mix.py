"""The kinds of call that users make: how often, what is sent, and how each must end.

A failure is a call that ends otherwise. So a refusal that was asked for is none, and an answer
where there should have been a refusal is one. No locust here; who sends them is `users.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATH = "/v1/chat/completions"
TERMINATOR = b"[DONE]"
# Some 400 ms of text, event by event, as a model writes it.
PACED = {"events": 40, "delay_event_ms": 10}
QUESTION = (
    "Describe how a careful gateway counts what passes through it, token by token, "
    "and never loses one on the way."
)
TOOL = {
    "type": "function",
    "function": {
        "name": "count_tokens",
        "description": "Count the tokens of a text.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of call. `leaves`: the client goes after the first event."""

    weight: int
    members: Mapping[str, Any]
    statuses: frozenset[int] = frozenset({200})
    is_complete: bool = True  # a stream ends with its terminator
    leaves: bool = False
    wants_simulator: bool = False  # asks the upstream for something that only the simulator does

    @property
    def is_stream(self) -> bool:
        """Whether the answer comes in events."""
        return self.members.get("stream") is True

    def body(self, model: str, *, has_simulator: bool) -> dict[str, Any]:
        """The request."""
        said = [{"role": "user", "content": QUESTION}]
        body = {"model": model, "messages": said, "max_tokens": 256, **self.members}
        if self.is_stream and has_simulator and "tools" not in body:
            body["sim"] = {**PACED, **body.get("sim", {})}
        return body


KINDS: Mapping[str, Kind] = {
    "plain": Kind(weight=40, members={}),
    "stream": Kind(weight=35, members={"stream": True}),
    "plain tools": Kind(weight=5, members={"tools": [TOOL]}),
    "stream tools": Kind(weight=5, members={"tools": [TOOL], "stream": True}),
    "stream left": Kind(weight=5, members={"stream": True}, is_complete=False, leaves=True),
    "refused": Kind(
        weight=4,
        members={"sim": {"status": 422}},
        statuses=frozenset({422}),
        wants_simulator=True,
    ),
    # Each attempt fails half of the time: another channel answers, or none does.
    "failing over": Kind(
        weight=4,
        members={"sim": {"status": 503, "rate": 0.5}},
        statuses=frozenset({200, 503}),
        wants_simulator=True,
    ),
    "stream cut": Kind(
        weight=2,
        members={"stream": True, "sim": {"cut_after_events": 20}},
        is_complete=False,
        wants_simulator=True,
    ),
}


def kinds(*, has_simulator: bool) -> Mapping[str, Kind]:
    """The mix: with the simulator upstream also what it fails at on request."""
    return {name: kind for name, kind in KINDS.items() if has_simulator or not kind.wants_simulator}
