"""Thinking on the chat-completions wire: text beside the content, and an envelope that proves it.

The protocol documents neither. `reasoning_content` is the text that many upstreams send and many
clients show; `reasoning_details` is the array in which clients of other gateways already keep
signatures between turns. Each entry there is whole, so that it survives a client that only keeps
and returns it:

    {"type": "reasoning.text", "index": 0, "format": …, "text": …, "signature": …}
    {"type": "reasoning.encrypted", "index": 1, "format": …, "data": …}

`format` tags whose signature it is. A tool call's own signature is in its `extra_content`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from channels.families import CHAT, GEMINI, MESSAGES, RESPONSES
from channels.translation.model import Protocol, Thinking

_FORMATS: Mapping[Protocol, str] = {
    MESSAGES.protocol: "anthropic-claude-v1",
    GEMINI.protocol: "google-gemini-v1",
    RESPONSES.protocol: "openai-responses-v1",
    CHAT.protocol: "chat-completions-v1",
}
_SIGNERS: Mapping[str, Protocol] = {name: signer for signer, name in _FORMATS.items()}
# Where a tool call's signature stands, by its signer.
_CALL_SIGNERS: Mapping[Protocol, str] = {
    GEMINI.protocol: "google",
    MESSAGES.protocol: "anthropic",
    RESPONSES.protocol: "openai",
    CHAT.protocol: "chat",
}


def read_thinking(message: Mapping[str, Any]) -> list[Thinking]:
    """The thinking of a message: what its envelope proves, else its bare text."""
    details = message.get("reasoning_details")
    entries = [
        thinking
        for entry in (details if isinstance(details, list) else ())
        if isinstance(entry, Mapping) and (thinking := read_entry(entry)) is not None
    ]
    if text := bare_text(message):
        entries = [Thinking(text), *(thinking for thinking in entries if is_proven(thinking))]
    return settled(entries)


def settled(thoughts: Sequence[Thinking]) -> list[Thinking]:
    """The proven thoughts, and before them the text of the others where none of them has text.

    The bare text repeats what the proven ones say.
    """
    found = [thinking for thinking in thoughts if is_proven(thinking)]
    if not any(thinking.text for thinking in found):
        text = "".join(thinking.text for thinking in thoughts)
        if text:
            found.insert(0, Thinking(text))
    return found


def bare_text(message: Mapping[str, Any]) -> str:
    """The thinking's text outside the envelope: under either name, or among the content."""
    for name in ("reasoning_content", "reasoning"):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    content = message.get("content")
    return text_in_content(content) if isinstance(content, list) else ""


def text_in_content(content: Iterable[Any]) -> str:
    """The thinking that some upstreams put among the parts of a content."""
    texts: list[str] = []
    for part in content:
        if isinstance(part, Mapping) and part.get("type") == "thinking":
            thought = part.get("thinking")
            pieces = thought if isinstance(thought, list) else [thought]
            for piece in pieces:
                text = piece.get("text") if isinstance(piece, Mapping) else piece
                if isinstance(text, str):
                    texts.append(text)
    return "".join(texts)


def read_entry(entry: Mapping[str, Any]) -> Thinking | None:
    """One entry of the envelope; None when there is nothing in it that we know."""
    signer = _SIGNERS.get(_string(entry, "format") or "")
    data, signature = _string(entry, "data"), _string(entry, "signature")
    if data:
        return None if signer is None else Thinking("", redacted=data, signer=signer)
    text = _string(entry, "text") or _string(entry, "summary") or ""
    if signature and signer is not None:
        return Thinking(text, signature=signature, signer=signer)
    return Thinking(text) if text else None


def members_of(parts: Iterable[Thinking]) -> dict[str, Any]:
    """The members that say these thoughts: their text, and the envelope of the proven ones."""
    members: dict[str, Any] = {}
    texts = []
    details: list[dict[str, Any]] = []
    for part in parts:
        texts.append(part.text)
        if is_proven(part):
            details.append(entry_of(part, index=len(details)))
    if text := "".join(texts):
        members["reasoning_content"] = text
    if details:
        members["reasoning_details"] = details
    return members


def is_proven(part: Thinking) -> bool:
    """Whether there is something to prove this thought with."""
    return part.signer is not None and bool(part.signature or part.redacted)


def entry_of(part: Thinking, *, index: int) -> dict[str, Any]:
    """The entry of the envelope for one proven thought."""
    assert part.signer is not None, part
    tag = {"index": index, "format": _FORMATS[part.signer]}
    if part.redacted is not None:
        return {"type": "reasoning.encrypted", **tag, "data": part.redacted}
    return {"type": "reasoning.text", **tag, "text": part.text, "signature": part.signature}


def read_call_signature(call: Mapping[str, Any]) -> tuple[str | None, Protocol | None]:
    """The signature that belongs to a tool call, and its signer."""
    extra = call.get("extra_content")
    if isinstance(extra, Mapping):
        for signer, name in _CALL_SIGNERS.items():
            held = extra.get(name)
            if isinstance(held, Mapping) and (signature := _string(held, "thought_signature")):
                return signature, signer
    return None, None


def call_signature(signature: str | None, signer: Protocol | None) -> dict[str, Any]:
    """The member of a tool call that carries its signature; empty when it has none."""
    if signature is None or signer is None:
        return {}
    return {"extra_content": {_CALL_SIGNERS[signer]: {"thought_signature": signature}}}


def _string(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None
