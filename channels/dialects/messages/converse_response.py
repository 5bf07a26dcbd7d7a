"""Converts responses of Bedrock's Converse to messages: whole ones, and the events of its stream.

Its stream has no start of a text block and reports the usage after the end; the messages protocol
starts every block, and ends after the usage. The response and the model are not named in it.

What is read has types: a value of another type is the upstream's fault, an exception in the
conversion is one of the gateway. Only the usage is read member by member, because a response whose
counts are odd is still one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from channels.dialects.token_counts import count_of
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage, server_sent
from channels.json.lenient import UNREADABLE, dumps, text_of
from channels.json.written import Written

# Error types of the dialect's events, by Bedrock's exceptions.
_ERROR_TYPES = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}


def error_event(message: EventMessage) -> bytes:
    """Return the dialect's error event for a message that is no event."""
    kind, words = message.failure
    error = {"type": _ERROR_TYPES.get(kind, "api_error"), "message": words}
    return server_sent("error", msgspec.json.encode({"type": "error", "error": error}))


_Kind = TypeVar("_Kind")

_STOP_REASONS: Mapping[str, str] = MappingProxyType(
    {"content_filtered": "refusal", "guardrail_intervened": "refusal"}
)
_USAGE: Mapping[str, str] = MappingProxyType(
    {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadInputTokens": "cache_read_input_tokens",
        "cacheWriteInputTokens": "cache_creation_input_tokens",
    }
)
_TTLS = ("5m", "1h")
# Tiers with their own prices; others are the standard one, or prepaid.
TIERED = ("priority", "flex")


class _ToolUse(Struct, rename="camel", gc=False):
    tool_use_id: str
    name: str
    input: object


class _ReasoningText(Struct, gc=False):
    text: str
    signature: str | None = None


class _Reasoning(Struct, rename="camel", gc=False):
    """A thought: its text, or opaque data."""

    reasoning_text: _ReasoningText | None = None
    redacted_content: str | None = None


class _ContentBlock(Struct, rename="camel", gc=False):
    """A block of a whole response, of one of these kinds or another."""

    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None


class _OutputMessage(Struct, gc=False):
    content: list[_ContentBlock]


class _ConverseOutput(Struct, gc=False):
    message: _OutputMessage


class _StatedUsage(Struct, rename="camel", gc=False):
    """The counts, as an event of a stream or within a whole response."""

    usage: object = None
    service_tier: object = None


class _Whole(_StatedUsage, rename="camel", kw_only=True, gc=False):
    output: _ConverseOutput
    stop_reason: str | None = None


class _MessageStart(Struct, gc=False):
    """No member of it is read."""


class _StartedToolUse(Struct, rename="camel", gc=False):
    tool_use_id: str
    name: str


class _Start(Struct, rename="camel", gc=False):
    tool_use: _StartedToolUse | None = None


class _BlockStart(Struct, rename="camel", gc=False):
    content_block_index: int
    start: _Start


class _ToolUseDelta(Struct, gc=False):
    input: str


class _ReasoningDelta(Struct, rename="camel", gc=False):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(Struct, rename="camel", gc=False):
    text: str | None = None
    tool_use: _ToolUseDelta | None = None
    reasoning_content: _ReasoningDelta | None = None


class _BlockDelta(Struct, rename="camel", gc=False):
    content_block_index: int
    delta: _Delta


class _BlockStop(Struct, gc=False):
    """No member of it is read: one block is open at a time."""


class _MessageStop(Struct, rename="camel", gc=False):
    stop_reason: str


_WHOLE = msgspec.json.Decoder(_Whole)


def messages_body(body: bytes, model: str) -> bytes:
    """Convert a whole response. Raises UpstreamMalformed for an invalid one."""
    whole = _decoded(_WHOLE, body, "no message in the response")
    content = whole.output.message.content
    message: Written = {
        **_named(blake2b(body, digest_size=12).hexdigest(), model),
        "content": [block for one in content if (block := _response_block(one)) is not None],
        **_stopped(whole.stop_reason),
        "usage": _shown(_usage(whole)),
    }
    return dumps(message)


class ConverseStream:
    """Converts one stream. `name` is the id of the response, which Converse does not state."""

    def __init__(self, name: str, model: str) -> None:
        self._name = name
        self._model = model
        self._open: int | None = None  # the block that was started
        self._stop_reason: str | None = None
        self._has_ended = False

    def take(self, message: EventMessage) -> bytes:
        """Return the server-sent events of one message. Raises UpstreamMalformed."""
        if message.kind != "event":
            return error_event(message)
        found = _EVENTS.get(message.headers.get(":event-type", ""))
        if found is None or self._has_ended:
            return b""
        decoder, write = found
        return write(self, _decoded(decoder, message.payload, "an event that cannot be read"))

    def end(self) -> bytes:
        """Return the last events: a response that stopped without stating its usage is complete."""
        if self._has_ended or self._stop_reason is None:
            return b""
        return self._ended(None)

    def _message_start(self, event: _MessageStart) -> bytes:
        # No token count is known before the end.
        message = {
            **_named(self._name, self._model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _shown(None),
        }
        return _event("message_start", {"message": message})

    def _block_start(self, event: _BlockStart) -> bytes:
        use = event.start.tool_use
        if use is None:
            return b""  # a block that the messages protocol does not have
        block = {"type": "tool_use", "id": use.tool_use_id, "name": use.name, "input": {}}
        return self._begin(event.content_block_index, block)

    def _block_delta(self, event: _BlockDelta) -> bytes:
        index, delta = event.content_block_index, event.delta
        if delta.text is not None:
            return self._delta(index, "text", {"type": "text_delta", "text": delta.text})
        if (use := delta.tool_use) is not None:
            return _delta(index, {"type": "input_json_delta", "partial_json": use.input})
        if (thought := delta.reasoning_content) is None:
            return b""
        if thought.text is not None:
            written = {"type": "thinking_delta", "thinking": thought.text}
            return self._delta(index, "thinking", written)
        if thought.signature is not None:
            written = {"type": "signature_delta", "signature": thought.signature}
            return self._delta(index, "thinking", written)
        if thought.redacted_content is not None:
            data = {"type": "redacted_thinking", "data": thought.redacted_content}
            return self._begin(index, data)
        return b""

    def _block_stop(self, event: _BlockStop) -> bytes:
        return self._close()

    def _message_stop(self, event: _MessageStop) -> bytes:
        self._stop_reason = event.stop_reason
        return self._close()

    def _metadata(self, event: _StatedUsage) -> bytes:
        return self._ended(_usage(event))

    def _delta(self, index: int, kind: str, delta: Written) -> bytes:
        """Return the event of a delta, after the start of its block if it is the first."""
        begun = b""
        if self._open != index:
            empty = {"signature": ""} if kind == "thinking" else {}
            begun = self._begin(index, {"type": kind, kind: "", **empty})
        return begun + _delta(index, delta)

    def _begin(self, index: int, block: Written) -> bytes:
        closed = self._close()
        self._open = index
        return closed + _event("content_block_start", {"index": index, "content_block": block})

    def _close(self) -> bytes:
        index, self._open = self._open, None
        return b"" if index is None else _event("content_block_stop", {"index": index})

    def _ended(self, usage: Written | None) -> bytes:
        self._has_ended = True
        last = {"delta": _stopped(self._stop_reason), "usage": _shown(usage)}
        return self._close() + _event("message_delta", last) + _event("message_stop", {})


# Each event's type, and its conversion.
_EVENTS: Mapping[str, tuple[msgspec.json.Decoder[Any], Callable[[ConverseStream, Any], bytes]]] = (
    MappingProxyType(
        {
            "messageStart": (msgspec.json.Decoder(_MessageStart), ConverseStream._message_start),
            "contentBlockStart": (msgspec.json.Decoder(_BlockStart), ConverseStream._block_start),
            "contentBlockDelta": (msgspec.json.Decoder(_BlockDelta), ConverseStream._block_delta),
            "contentBlockStop": (msgspec.json.Decoder(_BlockStop), ConverseStream._block_stop),
            "messageStop": (msgspec.json.Decoder(_MessageStop), ConverseStream._message_stop),
            "metadata": (msgspec.json.Decoder(_StatedUsage), ConverseStream._metadata),
        }
    )
)


def _decoded(decoder: msgspec.json.Decoder[_Kind], data: bytes, fault: str) -> _Kind:
    """Return what an upstream has sent, as its type. Raises UpstreamMalformed for anything else."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise UpstreamMalformed(fault) from error


def _named(name: str, model: str) -> Written:
    return {"id": f"msg_bdrk_{name}", "type": "message", "role": "assistant", "model": model}


def _response_block(block: _ContentBlock) -> Written | None:
    """Convert a block of a whole response; None if the messages protocol does not have it."""
    if block.text is not None:
        return {"type": "text", "text": block.text}
    if (use := block.tool_use) is not None:
        return {"type": "tool_use", "id": use.tool_use_id, "name": use.name, "input": use.input}
    if (thought := block.reasoning_content) is None:
        return None
    if thought.redacted_content is not None:
        return {"type": "redacted_thinking", "data": thought.redacted_content}
    if (reasoning := thought.reasoning_text) is None:
        raise UpstreamMalformed("a thought that cannot be read")
    return {
        "type": "thinking",
        "thinking": reasoning.text,
        "signature": reasoning.signature or "",
    }


def _stopped(reason: str | None) -> Written:
    """Return the stop reason; most have the same name in both."""
    word = None if reason is None else _STOP_REASONS.get(reason, reason)
    return {"stop_reason": word, "stop_sequence": None}


def _usage(stated: _StatedUsage) -> Written | None:
    """Return the stated counts; in both protocols, input excludes cached tokens.

    They include the service tier, and the tokens written to a cache by lifetime.
    """
    usage = stated.usage
    if not isinstance(usage, Mapping):
        return None
    counts = {name: count_of(usage.get(one)) for one, name in _USAGE.items()}
    members: Written = {name: count for name, count in counts.items() if count is not None}
    kept = {
        f"ephemeral_{ttl}_input_tokens": count
        for ttl, count in _by_lifetime(usage.get("cacheDetails"))
    }
    if kept:
        members["cache_creation"] = kept
    tier = stated.service_tier
    if isinstance(tier, Mapping) and (word := text_of(tier.get("type"))) in TIERED:
        members["service_tier"] = word
    return members


def _by_lifetime(stated: object) -> Iterator[tuple[str, int]]:
    """Yield the lifetimes of a cache and the tokens written to it, of entries as documented."""
    for one in stated if isinstance(stated, list) else ():
        if isinstance(one, Mapping) and text_of(one.get("ttl")) in _TTLS:
            count = count_of(one.get("inputTokens"))
            if count is not None:
                yield one["ttl"], count


def _shown(usage: Written | None) -> Written:
    """Return the usage member, which clients require; without input it states nothing."""
    return usage or {"output_tokens": 0}


def _event(kind: str, members: Written) -> bytes:
    return server_sent(kind, dumps({"type": kind, **members}))


def _delta(index: int, delta: Written) -> bytes:
    return _event("content_block_delta", {"index": index, "delta": delta})
