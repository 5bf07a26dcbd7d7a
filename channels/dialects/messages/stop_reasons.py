"""Stop reasons of the messages protocol, and their canonical equivalents."""

from __future__ import annotations

from collections.abc import Mapping

from channels.translation.model import FinishReason

_READ: dict[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
}
_WRITTEN: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "pause": "pause_turn",
    "refusal": "refusal",
}


def read_finish(reason: str) -> FinishReason:
    """Return the canonical reason; an unknown one is a normal end."""
    return _READ.get(reason, "stop")


def read_explanation(details: object) -> str | None:
    """Return the provider's explanation of a refusal, from `stop_details`."""
    explanation = details.get("explanation") if isinstance(details, Mapping) else None
    return explanation if isinstance(explanation, str) and explanation else None


def write_finish(
    reason: FinishReason | None,
    *,
    stop_sequence: str | None,
    explanation: str | None,
    has_calls: bool,
    has_refusal: bool,
) -> dict[str, object]:
    """Return the members that state how a message ended.

    A refusal as the model's text ends a message like one by the provider.
    """
    word = _WRITTEN[reason or "stop"]
    if word == "end_turn" and has_calls:
        word = "tool_use"
    elif word == "end_turn" and has_refusal:
        word = "refusal"
    members: dict[str, object] = {
        "stop_reason": word,
        "stop_sequence": stop_sequence if word == "stop_sequence" else None,
    }
    if word == "refusal" and explanation:
        members["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": explanation,
        }
    return members
