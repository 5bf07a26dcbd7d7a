"""Responses of Bedrock's Converse as messages: the events of a stream, or folded into a message."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from channels.dialects.messages.converse_decoder import ConverseDecoder, MessagesEvents
from channels.dialects.messages.converse_events import read_whole
from channels.http.event_stream import EventMessage, server_sent
from channels.json.lenient import dumps
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


class ConverseStream:
    """Converts one stream. `name` is the id of the response."""

    def __init__(self, name: str, model: str) -> None:
        self._decoder = ConverseDecoder(name, model)

    def take(self, message: EventMessage) -> bytes:
        """Return the server-sent events of one message. Raises UpstreamMalformed."""
        if message.kind != "event":
            return error_event(message)
        return _sent(self._decoder.take_event(message))

    def end(self) -> bytes:
        """Return the last events."""
        return _sent(self._decoder.end_stream())


def messages_body(body: bytes, model: str) -> bytes:
    """Convert a whole response. Raises UpstreamMalformed for an invalid one."""
    name = blake2b(body, digest_size=12).hexdigest()
    return dumps(_folded(ConverseDecoder(name, model).take_body(read_whole(body))))


def _sent(events: MessagesEvents) -> bytes:
    return b"".join(server_sent(kind, dumps({"type": kind, **one})) for kind, one in events)


def _folded(events: MessagesEvents) -> Written:
    """Return the message of these events of a whole response; calls begin with all they have."""
    message: Written = {}
    for kind, event in events:
        if kind == "message_start":
            message = event["message"]
        elif kind == "content_block_start":
            message["content"].append(event["content_block"])
        elif kind == "content_block_delta":
            block, delta = message["content"][-1], event["delta"]
            for member in delta.keys() & block.keys() - {"type"}:
                block[member] += delta[member]
        elif kind == "message_delta":
            message |= {**event["delta"], "usage": event["usage"]}
    return message
