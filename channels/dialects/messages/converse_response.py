"""Bedrock's Converse answers as messages: whole ones, and the events of its stream.

Its stream begins no block of text and says the usage after the end; the messages protocol begins
every block, and ends behind the usage. Nothing in it names the response or the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec

from channels.dialects.messages.bedrock_failure import error_event
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage, server_sent
from channels.json.text import UNREADABLE, dumps

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


def messages_body(body: bytes, model: str) -> bytes:
    """A whole response. Raises UpstreamMalformed for one that is none."""
    value = _object(body)
    try:
        content = value["output"]["message"]["content"]
        blocks = [block for one in content if (block := _block(one)) is not None]
    except (KeyError, TypeError, AttributeError) as error:
        raise UpstreamMalformed("no message in the response") from error
    message: _Json = {
        **_named(blake2b(body, digest_size=12).hexdigest(), model),
        "content": blocks,
        **_stopped(value.get("stopReason")),
    }
    message["usage"] = _shown(_usage(value.get("usage")))
    return dumps(message)


class ConverseStream:
    """One stream. `name` is what the response is called, which Converse does not say."""

    def __init__(self, name: str, model: str) -> None:
        self._name = name
        self._model = model
        self._open: int | None = None  # the block that was begun
        self._stop_reason: str | None = None
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<ConverseStream block {self._open}{' ended' if self._has_ended else ''}>"

    def take(self, message: EventMessage) -> bytes:
        """The server-sent events of one message. Raises UpstreamMalformed."""
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
        """The upstream has ended: what stopped without stating its usage is whole all the same."""
        if self._has_ended or self._stop_reason is None:
            return b""
        return self._ended(None)

    def _message_start(self, value: _Json) -> bytes:
        # No count of tokens is known before the end.
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
            return b""  # of what the messages protocol has no block for
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
        return self._ended(_usage(value.get("usage")))

    def _delta(self, index: int, kind: str, delta: _Json) -> bytes:
        """A delta of a block, which is begun by its first one."""
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


def _block(block: Mapping[str, Any]) -> _Json | None:
    """A block of a whole response; None for one that the messages protocol does not have."""
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
    """Most reasons have the same name in both."""
    word = None if reason is None else _STOP_REASONS.get(reason, reason)
    return {"stop_reason": word, "stop_sequence": None}


def _usage(usage: Any) -> _Json | None:
    """The counts that are stated; in both, input is what has nothing to do with a cache."""
    if not isinstance(usage, Mapping):
        return None
    return {name: usage[one] for one, name in _USAGE.items() if usage.get(one) is not None}


def _shown(usage: _Json | None) -> _Json:
    """The member that clients count on. Without an input it states nothing (`usage.py`)."""
    return usage or {"output_tokens": 0}


def _event(kind: str, members: _Json) -> bytes:
    return server_sent(kind, dumps({"type": kind, **members}))


def _delta(index: int, delta: _Json) -> bytes:
    return _event("content_block_delta", {"index": index, "delta": delta})
