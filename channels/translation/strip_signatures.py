"""Signatures that a translation sealed, taken out of a request that needs no translation.

A conversation may move: answered once by a channel of another protocol, whose signatures its client
keeps in their envelope (`sealed_signature.py`), and then by one of the client's own. That one
checks every signature and refuses those that it did not make. So the thoughts they prove stay
behind, as they do where a request is translated; everything else goes on as the client sent it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from channels.dialects.gemini.names import camel_keys
from channels.dialects.gemini.signatures import SEALED, read_signature
from channels.dialects.gemini.write_parts import prove_calls
from channels.json.members import JsonObject
from channels.json.text import dumps
from channels.translation.sealed_signature import TAG, opened

_Turn = dict[str, Any]
_SIGNED = {"thinking": "signature", "redacted_thinking": "data"}


def without_foreign(protocol: str, body: bytes, outline: bytes) -> bytes:
    """The body, which the protocol's reader has checked, without foreign signatures.

    The same bytes come back when there are none, which costs one scan of the `outline`
    (`channels/json/outline.py`): their tags stand at the beginning of strings.
    """
    if protocol == "messages" and TAG.encode() in outline:
        return _edited(body, "messages", _without_in_message)
    if protocol == "native" and SEALED.encode() in outline:
        return _edited(body, "contents", _without_in_content)
    return body


def _edited(body: bytes, name: str, strip: Callable[[_Turn], _Turn | None]) -> bytes:
    members = JsonObject.parse(body)
    stated = msgspec.json.decode(members.raw[name])
    turns = stated if isinstance(stated, list) else [stated]
    kept = [left for turn in turns if (left := strip(turn)) is not None]
    if kept == turns:
        return body
    replace = {name: dumps(kept)}
    if name == "messages" and _must_think(members) and _is_amid_calls(kept):
        # A turn that goes on after its tools' results must begin with the thoughts it began with.
        replace["thinking"] = b'{"type":"disabled"}'
    return members.edited(replace=replace, add={})


def _without_in_message(message: _Turn) -> _Turn | None:
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
    return isinstance(proof, str) and opened(proof, own="messages")[1] != "messages"


def _must_think(members: JsonObject) -> bool:
    thinking = members.raw.get("thinking")
    stated = None if thinking is None else msgspec.json.decode(thinking)
    return isinstance(stated, Mapping) and stated.get("type") == "enabled"


def _is_amid_calls(messages: list[_Turn]) -> bool:
    """Whether the model's last turn called tools and has no thoughts of its own (any more)."""
    last = next((one for one in reversed(messages) if one.get("role") == "assistant"), None)
    content = None if last is None else last.get("content")
    if not isinstance(content, list):
        return False
    kinds = {block.get("type") for block in content if isinstance(block, Mapping)}
    return "tool_use" in kinds and kinds.isdisjoint(_SIGNED)


def _without_in_content(content: _Turn) -> _Turn | None:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    read = [camel_keys(part) if isinstance(part, Mapping) else part for part in parts]
    kept = [left for part in read if (left := _without_in_part(part)) is not None]
    if kept == read:
        return content
    prove_calls([part for part in kept if isinstance(part, dict)])
    return {**content, "parts": kept} if kept else None


def _without_in_part(part: Any) -> Any:
    """The part without a foreign signature; None for a thought, or where nothing else is left."""
    signature = read_signature(part.get("thoughtSignature")) if isinstance(part, Mapping) else None
    if signature is None or signature.signer == "native":
        return part
    rest = {name: value for name, value in part.items() if name != "thoughtSignature"}
    return None if rest.get("thought") is True or rest in ({}, {"text": ""}) else rest
