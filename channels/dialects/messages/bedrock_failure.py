"""What fails within a stream of Bedrock, as the messages protocol says it."""

from __future__ import annotations

import msgspec

from channels.http.event_stream import EventMessage, server_sent

# What an exception of Bedrock is called in the dialect's own error events.
_ERROR_TYPES = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}


def error_event(message: EventMessage) -> bytes:
    """The dialect's error event for a message that is no event."""
    kind, words = message.failure
    error = {"type": _ERROR_TYPES.get(kind, "api_error"), "message": words}
    return server_sent("error", msgspec.json.encode({"type": "error", "error": error}))
