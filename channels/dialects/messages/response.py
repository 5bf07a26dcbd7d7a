"""Whole messages responses, both ways.

Blocks of the provider's own tools are ignored: the response is the model's text around them. They
must be equivalent to the streams.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from msgspec.structs import replace

from channels.dialects.messages.blocks import BlockReader
from channels.dialects.messages.signatures import thinking_block
from channels.dialects.messages.stop_reasons import read_explanation, read_finish, write_finish
from channels.dialects.messages.usage import MessagesUsageReader, write_usage
from channels.errors import UpstreamMalformed
from channels.json.lenient import dumps, raw_of, read_json
from channels.translation.call_arguments import arguments_object
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall


def decode_response(body: bytes) -> Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no content."""
    value = read_json(body)
    content = value.get("content") if isinstance(value, dict) else None
    if content is None and isinstance(value, dict) and value.get("stop_reason") == "refusal":
        content = []  # all content was withheld
    if not isinstance(value, dict) or not isinstance(content, list):
        raise UpstreamMalformed("a message without content")
    stated = MessagesUsageReader()
    container = raw_of(value.get("container"))
    stated.take_usage(raw_of(value.get("usage")), is_start=False, container=container)
    reason, stopped = value.get("stop_reason"), value.get("stop_sequence")
    response_id, model = value.get("id"), value.get("model")
    return Response(
        id=response_id if isinstance(response_id, str) else None,
        model=model if isinstance(model, str) else None,
        parts=_parts(content),
        finish=read_finish(reason) if isinstance(reason, str) else None,
        stop_sequence=stopped if isinstance(stopped, str) else None,
        usage=stated.displayed,
        explanation=read_explanation(value.get("stop_details")),
    )


def _parts(content: list[Any]) -> tuple[Part, ...]:
    """Return the parts; adjacent texts are one, as in a stream."""
    parts: list[Part] = []
    read = BlockReader({}).read(content)
    kept = (part for part in read if isinstance(part, Text | ToolCall | Thinking))
    for is_text, run in groupby(kept, lambda part: isinstance(part, Text)):
        if is_text:
            parts.append(Text("".join([part.text for part in run if isinstance(part, Text)])))
        else:
            parts += [replace(one, extras={}) if isinstance(one, ToolCall) else one for one in run]
    return tuple(parts)


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
