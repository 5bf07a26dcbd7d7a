"""The messages dialect as Vertex AI and Bedrock host it: claude, the model in the path.

Vertex AI: rawPredict and streamRawPredict, the provider's own stream. Bedrock: invoke and
invoke-with-response-stream, whose events come in Amazon's framing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from channels.dialects.address import MODEL, Address
from channels.dialects.hosting import Hosting
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage, server_sent
from channels.json.text import UNREADABLE

BETA_HEADER = "anthropic-beta"
# What an exception of Bedrock is called in the dialect's own error events.
_ERROR_TYPES = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}


class _Chunk(Struct):
    """The payload of an event: the dialect's own event, in base64."""

    event: bytes = msgspec.field(name="bytes")


class _Typed(Struct):
    type: str


_CHUNK = msgspec.json.Decoder(_Chunk)
_TYPED = msgspec.json.Decoder(_Typed)


def render(message: EventMessage) -> bytes:
    """The dialect's event in a message of Bedrock's stream. Raises UpstreamMalformed."""
    if message.kind == "event":
        if message.headers.get(":event-type") != "chunk":
            return b""  # of a kind that is not known yet
        try:
            data = _CHUNK.decode(message.payload).event
            return server_sent(_TYPED.decode(data).type, data)
        except UNREADABLE as error:
            raise UpstreamMalformed("an event that cannot be read") from error
    kind, words = message.failure
    members = {"type": _ERROR_TYPES.get(kind, "api_error"), "message": words}
    return server_sent("error", msgspec.json.encode({"type": "error", "error": members}))


HOSTINGS: Mapping[str, Hosting] = MappingProxyType(
    {
        "vertex": Hosting(
            address=Address(
                path=f"/publishers/anthropic/models/{MODEL}",
                action=":rawPredict",
                stream_action=":streamRawPredict",
                model_keeps="@",
            ),
            without=frozenset({"model"}),
            adds={"anthropic_version": b'"vertex-2023-10-16"'},
            moves={},
        ),
        "bedrock": Hosting(
            address=Address(
                path=f"/model/{MODEL}",
                action="/invoke",
                stream_action="/invoke-with-response-stream",
                accept="application/json",
            ),
            without=frozenset({"model", "stream"}),
            adds={"anthropic_version": b'"bedrock-2023-05-31"'},
            moves={BETA_HEADER: "anthropic_beta"},
            render=render,
        ),
    }
)
