"""Converts responses of Bedrock's Converse to messages: whole ones, and the events of its stream.

Its stream has no start of a text block and reports the usage after the end; the messages protocol
starts every block, and ends after the usage. The response and the model are not named in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec

from channels.dialects.token_counts import count_of
from channels.errors import UpstreamMalformed
from channels.http.sse import EventMessage, server_sent
from channels.json.lenient import UNREADABLE, dumps

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


_Json = dict[str, Any]

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


def messages_body(body: bytes, model: str) -> bytes:
    """Convert a whole response. Raises UpstreamMalformed for an invalid one."""
    value = _object(body)
    try:
        content = value["output"]["message"]["content"]
        blocks = [block for one in content if (block := _response_block(one)) is not None]
        usage = _usage(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise UpstreamMalformed("no message in the response") from error
    message: _Json = {
        **_named(blake2b(body, digest_size=12).hexdigest(), model),
        "content": blocks,
        **_stopped(value.get("stopReason")),
    }
    message["usage"] = _shown(usage)
    return dumps(message)


class ConverseStream:
    """Converts one stream. `name` is the id of the response, which Converse does not state."""

    def __init__(self, name: str, model: str) -> None:
        self._name = name
        self._model = model
        self._open: int | None = None  # the block that was started
        self._stop_reason: str | None = None
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<ConverseStream block {self._open}{' ended' if self._has_ended else ''}>"

    def take(self, message: EventMessage) -> bytes:
        """Return the server-sent events of one message. Raises UpstreamMalformed."""
        if message.kind != "event":
            return error_event(message)
        write = _EVENTS.get(message.headers.get(":event-type", ""))
        if write is None or self._has_ended:
            return b""
        value = _object(message.payload)
        try:
            return write(self, value)
        except (KeyError, TypeError, AttributeError) as error:
            raise UpstreamMalformed("an event that cannot be read") from error

    def end(self) -> bytes:
        """Return the last events: a response that stopped without stating its usage is complete."""
        if self._has_ended or self._stop_reason is None:
            return b""
        return self._ended(None)

    def _message_start(self, value: _Json) -> bytes:
        # No token count is known before the end.
        message = {
            **_named(self._name, self._model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _shown(None),
        }
        return _event("message_start", {"message": message})

    def _block_start(self, value: _Json) -> bytes:
        use = value["start"].get("toolUse")
        if use is None:
            return b""  # a block that the messages protocol does not have
        block = {"type": "tool_use", "id": use["toolUseId"], "name": use["name"], "input": {}}
        return self._begin(value["contentBlockIndex"], block)

    def _block_delta(self, value: _Json) -> bytes:
        index, delta = value["contentBlockIndex"], value["delta"]
        if (text := delta.get("text")) is not None:
            return self._delta(index, "text", {"type": "text_delta", "text": text})
        if (use := delta.get("toolUse")) is not None:
            return _delta(index, {"type": "input_json_delta", "partial_json": use["input"]})
        if (thought := delta.get("reasoningContent")) is None:
            return b""
        if (text := thought.get("text")) is not None:
            return self._delta(index, "thinking", {"type": "thinking_delta", "thinking": text})
        if (signature := thought.get("signature")) is not None:
            written = {"type": "signature_delta", "signature": signature}
            return self._delta(index, "thinking", written)
        if (data := thought.get("redactedContent")) is not None:
            return self._begin(index, {"type": "redacted_thinking", "data": data})
        return b""

    def _block_stop(self, value: _Json) -> bytes:
        return self._close()

    def _message_stop(self, value: _Json) -> bytes:
        self._stop_reason = value["stopReason"]
        return self._close()

    def _metadata(self, value: _Json) -> bytes:
        return self._ended(_usage(value))

    def _delta(self, index: int, kind: str, delta: _Json) -> bytes:
        """Return the event of a delta, after the start of its block if it is the first."""
        begun = b""
        if self._open != index:
            empty = {"signature": ""} if kind == "thinking" else {}
            begun = self._begin(index, {"type": kind, kind: "", **empty})
        return begun + _delta(index, delta)

    def _begin(self, index: int, block: _Json) -> bytes:
        closed = self._close()
        self._open = index
        return closed + _event("content_block_start", {"index": index, "content_block": block})

    def _close(self) -> bytes:
        index, self._open = self._open, None
        return b"" if index is None else _event("content_block_stop", {"index": index})

    def _ended(self, usage: _Json | None) -> bytes:
        self._has_ended = True
        last = {"delta": _stopped(self._stop_reason), "usage": _shown(usage)}
        return self._close() + _event("message_delta", last) + _event("message_stop", {})


_EVENTS = MappingProxyType(
    {
        "messageStart": ConverseStream._message_start,
        "contentBlockStart": ConverseStream._block_start,
        "contentBlockDelta": ConverseStream._block_delta,
        "contentBlockStop": ConverseStream._block_stop,
        "messageStop": ConverseStream._message_stop,
        "metadata": ConverseStream._metadata,
    }
)


def _object(data: bytes) -> _Json:
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise UpstreamMalformed("no JSON") from error
    if not isinstance(value, dict):
        raise UpstreamMalformed("no JSON object")
    return value


def _named(name: str, model: str) -> _Json:
    return {"id": f"msg_bdrk_{name}", "type": "message", "role": "assistant", "model": model}


def _response_block(block: Mapping[str, Any]) -> _Json | None:
    """Convert a block of a whole response; None if the messages protocol does not have it."""
    if (text := block.get("text")) is not None:
        return {"type": "text", "text": text}
    if (use := block.get("toolUse")) is not None:
        return {
            "type": "tool_use",
            "id": use["toolUseId"],
            "name": use["name"],
            "input": use["input"],
        }
    if (thought := block.get("reasoningContent")) is None:
        return None
    if (data := thought.get("redactedContent")) is not None:
        return {"type": "redacted_thinking", "data": data}
    reasoning = thought["reasoningText"]
    return {
        "type": "thinking",
        "thinking": reasoning["text"],
        "signature": reasoning.get("signature") or "",
    }


def _stopped(reason: str | None) -> _Json:
    """Return the stop reason; most have the same name in both."""
    word = None if reason is None else _STOP_REASONS.get(reason, reason)
    return {"stop_reason": word, "stop_sequence": None}


def _usage(value: Mapping[str, Any]) -> _Json | None:
    """Return the stated counts; in both protocols, input excludes cached tokens.

    They include the service tier, and the tokens written to a cache by lifetime.
    """
    usage = value.get("usage")
    if not isinstance(usage, Mapping):
        return None
    counts = {name: count_of(usage.get(one)) for one, name in _USAGE.items()}
    members: _Json = {name: count for name, count in counts.items() if count is not None}
    kept = {
        f"ephemeral_{ttl}_input_tokens": count
        for ttl, count in _by_lifetime(usage.get("cacheDetails"))
    }
    if kept:
        members["cache_creation"] = kept
    tier = value.get("serviceTier")
    if isinstance(tier, Mapping) and tier.get("type") in TIERED:
        members["service_tier"] = tier["type"]
    return members


def _by_lifetime(stated: Any) -> Iterator[tuple[str, int]]:
    """Yield the lifetimes of a cache and the tokens written to it, of entries as documented."""
    for one in stated if isinstance(stated, list) else ():
        if isinstance(one, Mapping) and one.get("ttl") in _TTLS:
            count = count_of(one.get("inputTokens"))
            if count is not None:
                yield one["ttl"], count


def _shown(usage: _Json | None) -> _Json:
    """Return the usage member, which clients require; without input it states nothing."""
    return usage or {"output_tokens": 0}


def _event(kind: str, members: _Json) -> bytes:
    return server_sent(kind, dumps({"type": kind, **members}))


def _delta(index: int, delta: _Json) -> bytes:
    return _event("content_block_delta", {"index": index, "delta": delta})
