"""Whole chat-completions responses, both ways.

The first of several choices is decoded: translations never request more. It must be equivalent to
the classes for streams.
"""

from __future__ import annotations

from typing import Any

from channels.dialects.chat import thinking
from channels.dialects.chat.finish_reasons import write_finish
from channels.dialects.chat.usage import write_usage
from channels.dialects.usage_details import tier_member
from channels.json import lenient
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id, at this Unix second."""
    message = _message(response)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": write_finish(response.finish, has_calls="tool_calls" in message),
    }
    whole: dict[str, Any] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
    if response.usage is not None:
        whole["usage"] = write_usage(response.usage)
        whole.update(tier_member(response.usage))
    return lenient.dumps(whole)


def _message(response: Response) -> dict[str, Any]:
    parts = response.parts
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    content = "".join(text_of_part(part) for part in parts)
    refusal = _refusal(response)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not (calls or refusal) else None,
        "refusal": refusal,
    }
    message.update(thinking.members_of(part for part in parts if isinstance(part, Thinking)))
    if calls:
        message["tool_calls"] = calls
    return message


def _refusal(response: Response) -> str | None:
    refusal = "".join(part.text for part in response.parts if isinstance(part, Refusal))
    if not refusal and response.finish == "refusal":
        return response.explanation or None
    return refusal or None


def text_of_part(part: Part) -> str:
    """Return a part's visible text: its text, or a link to its medium."""
    if isinstance(part, Text):
        return part.text
    return markdown(part) if isinstance(part, Media) else ""


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
        **thinking.call_signature(call.signature, call.signer),
    }
