"""One kind of request that users make: what is sent, how it must end, and what follows it.

A failure is a request that ends otherwise. So a refusal that was asked for is none, and an answer
where there should have been a refusal is one. No locust here; who sends them is `users.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Some 400 ms of text, event by event, as a model writes it.
PACED = {"events": 40, "delay_event_ms": 10}
# What a task may become, by any endpoint's words.
MADE, LOST = {"succeeded", "ready"}, {"failed", "expired", "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A streamed protocol: what is in its last event, and what ends each."""

    last: bytes
    event_end: bytes = b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of request; `{model}` in its path or its body is the chat model of the run."""

    weight: int  # among those of its family
    path: str
    body: Mapping[str, Any] | None = None  # None: it is a GET
    statuses: frozenset[int] = frozenset({200})
    has: str = ""  # what stands in every answer of 200, beside its status
    stream: Stream | None = None
    is_complete: bool = True  # a stream ends with its last event
    leaves: bool = False  # the client goes after the first event
    sim: Mapping[str, Any] = field(default_factory=dict)  # what only the simulator does
    is_task: bool = False  # its answer has an id, which is asked for until it has ended
    detail_of: str = ""  # its answer is a list, of which one is asked for by this member

    def path_with(self, model: str) -> str:
        """Where it goes."""
        return self.path.replace("{model}", model)

    def body_with(self, model: str, *, has_simulator: bool) -> dict[str, Any] | None:
        """What is sent; None for a GET."""
        if self.body is None:
            return None
        body = dict(self.body)
        if body.get("model") == "{model}":
            body["model"] = model
        sim = {**(PACED if self.stream and "tools" not in body else {}), **self.sim}
        return {**body, "sim": sim} if sim and has_simulator else body
