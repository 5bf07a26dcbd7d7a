"""Thoughts and their signatures in the messages protocol: its own, and those of other providers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from channels.families import MESSAGES
from channels.json.json_object import JsonObject
from channels.translation import signatures
from channels.translation.model import Thinking


def thinking_block(part: Thinking) -> dict[str, object] | None:
    """Return the block of a thought; None for one that says nothing."""
    if part.redacted:
        data = signatures.sealed(part.redacted, part.signer, own=MESSAGES.protocol)
        return {"type": "redacted_thinking", "data": data}
    if part.signature:
        signature = signatures.sealed(part.signature, part.signer, own=MESSAGES.protocol)
    elif part.text:
        signature = signatures.UNSIGNED
    else:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": signature}


_SIGNED = {"thinking": "signature", "redacted_thinking": "data"}


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """Return the body without foreign signatures; the same object if there are none."""
    if signatures.TAG.encode() not in outline:
        return body
    return signatures.edited(body, "messages", _without_in_message, _switched_off)


def _switched_off(members: JsonObject, kept: list[signatures.RawTurn]) -> dict[str, bytes]:
    """Disable thinking if a turn that continues after tool results has lost its thoughts."""
    if _must_think(members) and _is_amid_calls(kept):
        return {"thinking": b'{"type":"disabled"}'}
    return {}


def _without_in_message(message: signatures.RawTurn) -> signatures.RawTurn | None:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not _is_foreign(block)]
    if len(kept) == len(content):
        return message
    return {**message, "content": kept} if kept else None


def _is_foreign(block: object) -> bool:
    if not isinstance(block, Mapping):
        return False
    kind = block.get("type")
    proof = block.get(_SIGNED[kind]) if isinstance(kind, str) and kind in _SIGNED else None
    if not isinstance(proof, str):
        return False
    return (
        proof == signatures.UNSIGNED
        or signatures.opened(proof, own=MESSAGES.protocol)[1] != MESSAGES.protocol
    )


def _must_think(members: JsonObject) -> bool:
    thinking = members.raw.get("thinking")
    stated = None if thinking is None else msgspec.json.decode(thinking)
    return isinstance(stated, Mapping) and stated.get("type") == "enabled"


def _is_amid_calls(messages: list[signatures.RawTurn]) -> bool:
    """Whether the model's last turn called tools and has no thoughts, or none any more."""
    last = next((one for one in reversed(messages) if one.get("role") == "assistant"), None)
    content = None if last is None else last.get("content")
    if not isinstance(content, list):
        return False
    kinds = {block.get("type") for block in content if isinstance(block, Mapping)}
    return "tool_use" in kinds and kinds.isdisjoint(_SIGNED)
