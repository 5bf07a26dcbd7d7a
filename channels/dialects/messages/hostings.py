"""The messages dialect as Vertex AI and Bedrock host it: the model in the path.

Vertex AI: rawPredict and streamRawPredict, the provider's own stream. Bedrock: invoke and
invoke-with-response-stream, whose events come in Amazon's framing; for models that are not claude,
and so do not speak the dialect, Converse, which says the same in its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from channels.dialects.address import MODEL, Address
from channels.dialects.hosting import Hosting
from channels.dialects.messages.bedrock_failure import error_event
from channels.dialects.messages.converse_request import converse_body
from channels.dialects.messages.converse_response import ConverseStream, messages_body
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage, server_sent
from channels.json.text import UNREADABLE

BETA_HEADER = "anthropic-beta"


class _Chunk(Struct):
    """The payload of an event: the dialect's own event, in base64."""

    event: bytes = msgspec.field(name="bytes")


class _Typed(Struct):
    type: str


_CHUNK = msgspec.json.Decoder(_Chunk)
_TYPED = msgspec.json.Decoder(_Typed)


class InvokeStream:
    """A stream of Bedrock's invoke: each message holds one event of the dialect's own."""

    def take(self, message: EventMessage) -> bytes:
        """The dialect's event in a message. Raises UpstreamMalformed."""
        if message.kind != "event":
            return error_event(message)
        if message.headers.get(":event-type") != "chunk":
            return b""  # of a kind that is not known yet
        try:
            data = _CHUNK.decode(message.payload).event
            return server_sent(_TYPED.decode(data).type, data)
        except UNREADABLE as error:
            raise UpstreamMalformed("an event that cannot be read") from error

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""


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
            only="claude",
            otherwise="converse",
            new_render=lambda name, model: InvokeStream(),
        ),
        "converse": Hosting(
            address=Address(
                path=f"/model/{MODEL}",
                action="/converse",
                stream_action="/converse-stream",
                accept="application/json",
            ),
            without=frozenset(),
            adds={},
            moves={BETA_HEADER: "anthropic_beta"},
            rewrite=converse_body,
            new_render=ConverseStream,
            whole=messages_body,
        ),
    }
)
