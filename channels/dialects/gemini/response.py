"""Whole gemini responses, both ways.

A whole response has the form of a stream's chunk, and is decoded as a stream of one, so that both
mean the same. Only the first candidate is decoded: translations never request more.
"""

from __future__ import annotations

from typing import Any

from channels.dialects.gemini.finish_reasons import write_finish
from channels.dialects.gemini.parts import write_part
from channels.dialects.gemini.usage import write_usage
from channels.json.lenient import dumps
from channels.translation.model import Refusal, Response


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id; the protocol has no time of creation."""
    has_refusal = any(isinstance(part, Refusal) for part in response.parts)
    reason, message = write_finish(response.finish, response.explanation, has_refusal=has_refusal)
    candidate: dict[str, Any] = {}
    if response.parts or reason == "STOP":
        parts = [write_part(part) for part in response.parts] or [{"text": ""}]
        candidate["content"] = {"parts": parts, "role": "model"}
    candidate["finishReason"] = reason
    candidate["index"] = 0
    if message is not None:
        candidate["finishMessage"] = message
    whole: dict[str, Any] = {"candidates": [candidate]}
    if response.usage is not None:
        whole["usageMetadata"] = write_usage(response.usage)
    whole["modelVersion"] = model
    whole["responseId"] = id
    return dumps(whole)
