"""Finish reasons of the chat-completions protocol, and their canonical equivalents."""

from __future__ import annotations

from channels.translation.model import FinishReason

_READ: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    # Truncated as well: by the model's own length (Mistral), by a server without resources
    # (DeepSeek), by an unnamed error.
    "model_length": "length",
    "insufficient_system_resource": "length",
    "error": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    # Of Zhipu: withheld, too long for the model, interrupted.
    "sensitive": "refusal",
    "model_context_window_exceeded": "length",
    "network_error": "length",
}
# With these a response may lack its message.
WITHHELD = tuple(reason for reason, found in _READ.items() if found == "refusal")
_WRITTEN: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    # A paused turn is not finished; this is the protocol's reason for an incomplete one.
    "pause": "length",
}


def read_finish(reason: str, *, has_calls: bool) -> FinishReason:
    """Return the canonical reason.

    Some upstreams send `stop` after tool calls, others `tool_calls` without any: a client would
    wait for calls that are never sent.
    """
    found = _READ.get(reason, "stop")
    if found in ("stop", "tool_calls"):
        return "tool_calls" if has_calls else "stop"
    return found


def write_finish(reason: FinishReason | None, *, has_calls: bool) -> str:
    """Return the protocol's reason; a response without a reason has ended normally."""
    if reason is None or reason == "stop":
        return "tool_calls" if has_calls else "stop"
    return _WRITTEN[reason]
