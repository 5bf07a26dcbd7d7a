"""Signatures of other providers, taken out of a request that needs no translation.

Why they are there is said in `channels/translation/strip_signatures.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from channels.families import MESSAGES
from channels.json.members import JsonObject
from channels.translation.sealed_signature import TAG, opened
from channels.translation.strip_signatures import Turn, edited

_SIGNED = {"thinking": "signature", "redacted_thinking": "data"}


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """The body without them; the same bytes when there are none."""
    if TAG.encode() not in outline:
        return body
    return edited(body, "messages", _without_in_message, _switched_off)


def _switched_off(members: JsonObject, kept: list[Turn]) -> dict[str, bytes]:
    """A turn that goes on after its tools' results must begin with the thoughts it began with."""
    if _must_think(members) and _is_amid_calls(kept):
        return {"thinking": b'{"type":"disabled"}'}
    return {}


def _without_in_message(message: Turn) -> Turn | None:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not _is_foreign(block)]
    if len(kept) == len(content):
        return message
    return {**message, "content": kept} if kept else None


def _is_foreign(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, Mapping) else None
    proof = block.get(_SIGNED[kind]) if isinstance(kind, str) and kind in _SIGNED else None
    return isinstance(proof, str) and opened(proof, own=MESSAGES.protocol)[1] != MESSAGES.protocol


def _must_think(members: JsonObject) -> bool:
    thinking = members.raw.get("thinking")
    stated = None if thinking is None else msgspec.json.decode(thinking)
    return isinstance(stated, Mapping) and stated.get("type") == "enabled"


def _is_amid_calls(messages: list[Turn]) -> bool:
    """Whether the model's last turn called tools and has no thoughts of its own (any more)."""
    last = next((one for one in reversed(messages) if one.get("role") == "assistant"), None)
    content = None if last is None else last.get("content")
    if not isinstance(content, list):
        return False
    kinds = {block.get("type") for block in content if isinstance(block, Mapping)}
    return "tool_use" in kinds and kinds.isdisjoint(_SIGNED)
