"""Whole responses of the responses protocol, both ways.

A whole response is decoded as the last event of a stream, which has the same response.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from channels.dialects.responses import items
from channels.dialects.responses.response_object import ending_of, response_object
from channels.dialects.responses.signatures import proof_member
from channels.dialects.responses.tool_calls import call_item
from channels.dialects.responses.usage import write_usage
from channels.dialects.usage_details import tier_member
from channels.json.lenient import dumps
from channels.translation.call_arguments import call_arguments
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id, at this Unix second."""
    output = _Output(id)
    parts = response.parts
    has_refusal = any(isinstance(part, Refusal) for part in parts)
    if response.finish == "refusal" and response.explanation and not has_refusal:
        parts = (*parts, Refusal(response.explanation))
    for kind, run in groupby(parts, _kind_of_words):
        if kind:
            words = (part.text for part in run if isinstance(part, Text | Refusal))
            output.add_words(kind, "".join(words))
        else:
            for part in run:
                output.add(part)
    ending, usage = ending_of(response.finish), write_usage(response.usage)
    tier = tier_member(response.usage)
    return dumps(response_object(id, created, model, output.items, **ending, usage=usage, **tier))


def _kind_of_words(part: Part) -> str:
    """Return the kind of message part that a part becomes; empty for other items."""
    return (
        items.TEXT if isinstance(part, Text) else items.REFUSAL if isinstance(part, Refusal) else ""
    )


class _Output:
    """The items of a whole response; adjacent texts are one message, as in a stream."""

    __slots__ = ("_id", "items")

    def __init__(self, response_id: str) -> None:
        self._id = response_id
        self.items: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"<_Output {len(self.items)} items>"

    def add(self, part: Part) -> None:
        """Add the next part that is neither text nor refusal."""
        if isinstance(part, Thinking):
            self._add_thought(part)
        elif isinstance(part, ToolCall):
            if part.signature:
                self._add_thought(Thinking("", part.signature, part.signer))
            kind, members = call_item(part.name, part.id, call_arguments(part.arguments))
            self._add(kind, status="completed", **members)
        elif isinstance(part, Media):
            image = items.image_members(part)
            if image is None:
                self.add_words(items.TEXT, markdown(part))
            else:
                self._add("image_generation_call", **image)

    def _add(self, kind: str, **members: Any) -> None:
        self.items.append(items.new_item(self._id, len(self.items), kind, **members))

    def add_words(self, kind: str, text: str) -> None:
        """Add a part of a message."""
        if not text:
            return
        if not self.items or self.items[-1]["type"] != "message":
            self._add("message", status="completed", role="assistant", content=[])
        self.items[-1]["content"].append(items.message_part(kind, text))

    def _add_thought(self, part: Thinking) -> None:
        if part.text or part.signature or part.redacted:
            proof = proof_member(part.signature, part.redacted, part.signer)
            self._add(
                "reasoning", summary=[items.summary_part(part.text)] if part.text else [], **proof
            )
