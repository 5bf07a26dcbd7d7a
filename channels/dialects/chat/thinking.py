"""Thinking in chat-completions: text beside the content, and an envelope that proves it.

The protocol documents neither. `reasoning_content` is the text that many upstreams send and many
clients show; `reasoning_details` is the array in which clients of other gateways already keep
signatures between turns. Each entry is complete by itself, so that a client only has to return
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from channels import families
from channels.json.lenient import text_in
from channels.translation.model import Protocol, Thinking
from channels.translation.signatures import UNSIGNED, opened

_FORMATS: Mapping[Protocol, str] = {
    families.MESSAGES.protocol: "anthropic-claude-v1",
    families.GEMINI.protocol: "google-gemini-v1",
    families.RESPONSES.protocol: "openai-responses-v1",
    families.CHAT.protocol: "chat-completions-v1",
}
_SIGNERS: Mapping[str, Protocol] = {name: signer for signer, name in _FORMATS.items()}
# The members that upstreams send the text of a thought in.
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
# The types of content's parts that are thoughts, and the members with their text.
_THOUGHT_PARTS = ("thinking", "reasoning")
_TEXTS = ("thinking", "reasoning", "text", "summary")
# The member with a tool call's signature, by its signer.
_CALL_SIGNERS: Mapping[Protocol, str] = {
    families.GEMINI.protocol: "google",
    families.MESSAGES.protocol: "anthropic",
    families.RESPONSES.protocol: "openai",
    families.CHAT.protocol: "chat",
}


def read_thinking(message: Mapping[str, object]) -> list[Thinking]:
    """Decode the thinking of a message that a client returns."""
    return thoughts_of(bare_text(message), read_entries(message.get("reasoning_details")))


def thoughts_of(text: str | None, entries: list[Thinking]) -> list[Thinking]:
    """Return the proven thoughts, else the bare text, which stands outside the envelope."""
    if text:
        entries = [Thinking(text), *(thinking for thinking in entries if is_proven(thinking))]
    return settled(entries)


def read_entries(details: object, blocks: object = None) -> list[Thinking]:
    """Decode the envelope; without one the blocks of the messages protocol, as LiteLLM sends them.

    Some upstreams send both.
    """
    return _read_each(details, read_entry) or _read_each(blocks, _read_block)


def _read_each(
    stated: object, read: Callable[[Mapping[str, object]], Thinking | None]
) -> list[Thinking]:
    each = stated if isinstance(stated, list) else ()
    found = [read(one) for one in each if isinstance(one, Mapping)]
    return [thinking for thinking in found if thinking is not None]


def settled(thoughts: Sequence[Thinking]) -> list[Thinking]:
    """Return the proven thoughts, preceded by the others' text if no proven one has text.

    The bare text repeats the proven ones.
    """
    found = [thinking for thinking in thoughts if is_proven(thinking)]
    if not any(thinking.text for thinking in found):
        text = "".join(thinking.text for thinking in thoughts)
        if text:
            found.insert(0, Thinking(text))
    return found


def bare_text(message: Mapping[str, object]) -> str:
    """Return the thinking's text outside the envelope: under either name, or in the content."""
    if text := thought_in(message):
        return text
    content = message.get("content")
    return text_in_content(content) if isinstance(content, list) else ""


def thought_in(message: Mapping[str, object]) -> str | None:
    """Return the thinking's text in a member of its own, under the first name that has one."""
    if message.keys().isdisjoint(THOUGHTS):
        return None
    texts = (text_in(message, name) for name in THOUGHTS)
    return next(filter(None, texts), None)


def text_in_content(content: Iterable[object]) -> str:
    """Return the thinking that some upstreams send as parts of the content."""
    return "".join(map(_text_of, thoughts_in_content(content)))


def thoughts_in_content(content: Iterable[object]) -> list[Mapping[str, object]]:
    """Return the parts of the content that are thoughts; they have the form of blocks."""
    return [
        part for part in content if isinstance(part, Mapping) and part.get("type") in _THOUGHT_PARTS
    ]


def _text_of(part: Mapping[str, object]) -> str:
    thought = next(filter(None, map(part.get, _TEXTS)), None)
    pieces = thought if isinstance(thought, list) else [thought]
    texts = (piece.get("text") if isinstance(piece, Mapping) else piece for piece in pieces)
    return "".join([text for text in texts if isinstance(text, str)])


def _read_block(block: Mapping[str, object]) -> Thinking | None:
    """Decode a block of the messages protocol; None if it says nothing."""
    own = families.MESSAGES.protocol
    if data := text_in(block, "data"):
        data, signer = opened(data, own=own)
        return Thinking("", redacted=data, signer=signer)
    text, signature = _text_of(block), text_in(block, "signature")
    if signature and signature != UNSIGNED:
        signature, signer = opened(signature, own=own)
        return Thinking(text, signature=signature, signer=signer)
    return Thinking(text) if text else None


def read_entry(entry: Mapping[str, object]) -> Thinking | None:
    """Decode one entry of the envelope; None if it has nothing known."""
    signer = _SIGNERS.get(text_in(entry, "format"))
    data, signature = text_in(entry, "data"), text_in(entry, "signature")
    if data:
        return None if signer is None else Thinking("", redacted=data, signer=signer)
    text = text_in(entry, "text") or text_in(entry, "summary")
    if signature and signer is not None:
        return Thinking(text, signature=signature, signer=signer)
    return Thinking(text) if text else None


def members_of(parts: Iterable[Thinking]) -> dict[str, object]:
    """Return the members for these thoughts: their text, and the envelope of the proven ones."""
    members: dict[str, object] = {}
    texts = []
    details: list[dict[str, object]] = []
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
    """Whether the thought has a signature or redacted data, and a known signer."""
    return part.signer is not None and bool(part.signature or part.redacted)


def entry_of(part: Thinking, *, index: int) -> dict[str, object]:
    """Return the envelope's entry for one proven thought."""
    assert part.signer is not None, part
    tag = {"index": index, "format": _FORMATS[part.signer]}
    if part.redacted is not None:
        return {"type": "reasoning.encrypted", **tag, "data": part.redacted}
    return {"type": "reasoning.text", **tag, "text": part.text, "signature": part.signature}


def read_call_signature(call: Mapping[str, object]) -> tuple[str | None, Protocol | None]:
    """Return the signature of a tool call, and its signer."""
    extra = call.get("extra_content")
    if isinstance(extra, Mapping):
        for signer, name in _CALL_SIGNERS.items():
            payload = extra.get(name)
            if isinstance(payload, Mapping) and (
                signature := text_in(payload, "thought_signature")
            ):
                return signature, signer
    return None, None


def call_signature(signature: str | None, signer: Protocol | None) -> dict[str, object]:
    """Return the member of a tool call with its signature; empty without one."""
    if signature is None or signer is None:
        return {}
    return {"extra_content": {_CALL_SIGNERS[signer]: {"thought_signature": signature}}}
