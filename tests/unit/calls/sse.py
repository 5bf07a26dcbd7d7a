"""Pieces of chat-completions answers."""

import json
from typing import Any

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": still thinking\n\n"


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(text: str = "", *, finish: str | None = None, **more: Any) -> bytes:
    """An event that adds `text`."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return event({"id": "chatcmpl-1", "model": "up", "choices": [choice], **more})


def usage_of(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def usage_event(prompt: int, completion: int, cached: int = 0) -> bytes:
    return event({"id": "c", "choices": [], "usage": usage_of(prompt, completion, cached)})


def error_event(message: str = "overloaded") -> bytes:
    return event({"error": {"message": message, "type": "server_error", "code": "boom"}})


def whole(text: str = "Hello", *, usage: Any = None) -> bytes:
    """A complete answer, not streamed."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    }
    if usage is not None:
        body["usage"] = usage
    return json.dumps(body).encode()


def error_body(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "x", "code": None}}).encode()
