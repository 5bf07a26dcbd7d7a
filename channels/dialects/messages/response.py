"""Whole messages answers, both ways.

Blocks of the provider's own tools are passed over: what the model said around them is the response.
Streams are `stream_decoder.py` and `stream_encoder.py`, and must say the same.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from msgspec.structs import replace

from channels.dialects.messages.blocks import BlockReader
from channels.dialects.messages.finish import read_explanation, read_finish, write_finish
from channels.dialects.messages.usage import UsageReader, write_usage
from channels.errors import UpstreamMalformed
from channels.families import MESSAGES
from channels.json.lenient import raw_of
from channels.json.text import arguments_object, dumps, read_json
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall
from channels.translation.sealed_signature import sealed


def decode_response(body: bytes) -> Response:
    """Read a whole response. Raises UpstreamMalformed when it has no content."""
    value = read_json(body)
    content = value.get("content") if isinstance(value, dict) else None
    if content is None and isinstance(value, dict) and value.get("stop_reason") == "refusal":
        content = []  # there is nothing that may be said
    if not isinstance(value, dict) or not isinstance(content, list):
        raise UpstreamMalformed("a message without content")
    stated = UsageReader()
    stated.take(raw_of(value.get("usage")), is_start=False)
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
    """The parts; neighbouring texts are one, as they are in a stream."""
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
    """Write a whole response under this id; the protocol does not say when it was made."""
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
    # The protocol's responses hold no media.
    return {"type": "text", "text": markdown(part)} if isinstance(part, Media) else None


def thinking_block(part: Thinking) -> dict[str, Any] | None:
    """The block of a thought; None for one without proof.

    The client would send it back, and the provider refuses what it cannot check.
    """
    if part.redacted:
        data = sealed(part.redacted, part.signer, own=MESSAGES.protocol)
        return {"type": "redacted_thinking", "data": data}
    if not part.signature:
        return None
    signature = sealed(part.signature, part.signer, own=MESSAGES.protocol)
    return {"type": "thinking", "thinking": part.text, "signature": signature}
