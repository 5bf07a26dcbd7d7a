"""The object around the items of a response, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from channels.json.written import Written
from channels.translation.model import FinishReason

_INCOMPLETE: Mapping[FinishReason | None, str] = {
    "length": "max_output_tokens",
    "pause": "max_output_tokens",  # it is incomplete
    "refusal": "content_filter",
}


def ending_of(reason: FinishReason | None) -> Written:
    cause = _INCOMPLETE.get(reason)
    if cause is None:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": cause}}


def response_object(
    id: str, created: int, model: str, output: Sequence[object], **members: object
) -> dict[str, object]:
    """Return a response. The request's settings are not repeated: they have default values."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        **members,
    }
