"""Why a model stopped, as the gemini protocol says it, and in the canonical words.

The protocol has no word for "called a tool": that is STOP, with a call somewhere before it. What
the provider withheld for one reason or another is a refusal elsewhere, a call it could not read
among it; the reason's own word goes along as the explanation.
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
    """The canonical reason and the provider's explanation. An unknown reason is a stop."""
    if reason == _LENGTH:
        return "length", message
    if reason in _WITHHELD:
        return "refusal", message or _explanation(reason)
    return ("tool_calls" if has_calls else "stop"), message


def read_block(reason: str, message: str | None) -> tuple[FinishReason, str | None]:
    """Read the finish of a prompt that was refused; there is no response then."""
    return "refusal", message or _explanation(reason)


def _explanation(reason: str) -> str | None:
    """A reason's own word, where it says more than that there was one."""
    return None if reason in (_REFUSED, "OTHER") else reason


def write_finish(
    reason: FinishReason | None, explanation: str | None, *, has_refusal: bool
) -> tuple[str, str | None]:
    """The protocol's word and its message; `has_refusal`: the model declined in words of its own.

    A paused turn is not a finished one; the word for more to come is the one for length.
    """
    if reason in ("length", "pause"):
        return _LENGTH, explanation
    if reason == "refusal" or has_refusal:
        if explanation in _WITHHELD:  # a reason's own word
            return explanation, None
        return _REFUSED, explanation
    return _STOP, explanation
