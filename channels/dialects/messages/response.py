"""Whole messages responses, both ways.

Blocks of the provider's own tools are ignored: the response is the model's text around them. They
must be equivalent to the streams.
"""

from __future__ import annotations

from typing import Any

from channels.dialects.messages.signatures import thinking_block
from channels.dialects.messages.stop_reasons import write_finish
from channels.dialects.messages.usage import write_usage
from channels.json.lenient import dumps
from channels.translation.call_arguments import arguments_object
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id; the protocol states no creation time."""
    blocks = [block for part in response.parts if (block := _block(part)) is not None]
    message: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        **write_finish(
            response.finish,
            stop_sequence=response.stop_sequence,
            explanation=response.explanation,
            has_calls=any(isinstance(part, ToolCall) for part in response.parts),
            has_refusal=any(isinstance(part, Refusal) for part in response.parts),
        ),
        "usage": write_usage(response.usage),
    }
    return dumps(message)


def _block(part: Part) -> dict[str, Any] | None:
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, ToolCall):
        return {
            "type": "tool_use",
            "id": part.id,
            "name": part.name,
            "input": arguments_object(part.arguments),
        }
    if isinstance(part, Thinking):
        return thinking_block(part)
    # The protocol's responses have no media.
    return {"type": "text", "text": markdown(part)} if isinstance(part, Media) else None
