"""Finish reasons of the gemini protocol and of the canonical model.

The protocol has no reason for a tool call: that is STOP after a call. Whatever the provider
withheld, a call that it could not parse included, is a refusal in other protocols, with the
reason's name as the explanation.
"""

from __future__ import annotations

from channels.translation.model import FinishReason

_STOP = "STOP"
_LENGTH = "MAX_TOKENS"
_REFUSED = "SAFETY"
_WITHHELD = frozenset(
    (
        _REFUSED,
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    )
)


def read_finish(
    reason: str, message: str | None, *, has_calls: bool
) -> tuple[FinishReason, str | None]:
    """Return the canonical reason and the provider's explanation. An unknown reason is a stop."""
    if reason == _LENGTH:
        return "length", message
    if reason in _WITHHELD:
        return "refusal", message or _explanation(reason)
    return ("tool_calls" if has_calls else "stop"), message


def read_block(reason: str, message: str | None) -> tuple[FinishReason, str | None]:
    """Return the canonical reason of a refused prompt, which has no response."""
    return "refusal", message or _explanation(reason)


def _explanation(reason: str) -> str | None:
    """Return a reason's name, unless it is unspecific."""
    return None if reason in (_REFUSED, "OTHER") else reason


def write_finish(
    reason: FinishReason | None, explanation: str | None, *, has_refusal: bool
) -> tuple[str, str | None]:
    """Return the protocol's reason and message; `has_refusal`: the model itself declined.

    A paused turn is not finished: it becomes the reason for length, after which more may come.
    """
    if reason in ("length", "pause"):
        return _LENGTH, explanation
    if reason == "refusal" or has_refusal:
        if explanation in _WITHHELD:  # a reason's own word
            return explanation, None
        return _REFUSED, explanation
    return _STOP, explanation


NO_BLOCK = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
