"""Why a model stopped, as the chat-completions protocol says it, and in the canonical words."""

from __future__ import annotations

from channels.translation.model import FinishReason

_READ: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    # Cut short as well: by the model's own length (Mistral), by a server that ran out of room
    # (DeepSeek), by an error that is told no better.
    "model_length": "length",
    "insufficient_system_resource": "length",
    "error": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    # Of Zhipu: withheld, too long for the model, broken off.
    "sensitive": "refusal",
    "model_context_window_exceeded": "length",
    "network_error": "length",
}
# With these a response may come without a message.
WITHHELD = tuple(reason for reason, found in _READ.items() if found == "refusal")
_WRITTEN: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    # A paused turn is not a finished one; this is the protocol's word for more to come.
    "pause": "length",
}


def read_finish(reason: str, *, has_calls: bool) -> FinishReason:
    """The canonical reason.

    Some upstreams say `stop` after calling tools, others that tools were called where none was: a
    client would wait for calls that do not come.
    """
    found = _READ.get(reason, "stop")
    if found in ("stop", "tool_calls"):
        return "tool_calls" if has_calls else "stop"
    return found


def write_finish(reason: FinishReason | None, *, has_calls: bool) -> str:
    """The protocol's word; a response that states no reason has simply ended."""
    if reason is None or reason == "stop":
        return "tool_calls" if has_calls else "stop"
    return _WRITTEN[reason]
