"""The messages dialect as hosted by Vertex AI and Bedrock: the model is in the path.

Vertex AI: rawPredict and streamRawPredict, with the provider's own stream. Bedrock: invoke and
invoke-with-response-stream, with events in Amazon's framing; for models other than claude, which
do not support the dialect, Converse, which expresses the same by other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from channels.dialects.address import MODEL, Address
from channels.dialects.hosting import Hosting, TierHeader
from channels.dialects.messages import converse_response
from channels.dialects.messages.converse_request import TIERS, converse_body
from channels.dialects.messages.converse_usage import TIERED
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage, server_sent
from channels.json.json_object import InvalidJson, JsonObject
from channels.json.lenient import UNREADABLE

BETA_HEADER = "anthropic-beta"


class _InvokeChunk(Struct):
    """The payload of an event: the dialect's own event, in base64."""

    event: bytes = msgspec.field(name="bytes")


class _Typed(Struct):
    type: str


_CHUNK = msgspec.json.Decoder(_InvokeChunk)
_TYPED = msgspec.json.Decoder(_Typed)


def stated(data: bytes, tier: str, within: str = "") -> bytes:
    """Return a response with the served tier in its usage; the same object for the standard one.

    `within` names the member that has the response. What cannot be read is left to the meter.
    """
    if tier not in TIERED:
        return data
    try:
        members = JsonObject.parse(data)
        if within:
            inner = members.raw.get(within, b"")
            return members.edited(replace={within: stated(bytes(inner), tier)}, add={})
        usage = JsonObject.parse(bytes(members.raw["usage"]))
    except (InvalidJson, KeyError):
        return data
    word = {"service_tier": msgspec.json.encode(tier)}
    is_there = "service_tier" in usage.raw
    noted = usage.edited(replace=word if is_there else {}, add={} if is_there else word)
    return members.edited(replace={"usage": noted}, add={})


class InvokeStream:
    """Decodes a stream of Bedrock's invoke: each message has one event of the dialect.

    `tier` is the service tier that the head of the response states.
    """

    def __init__(self, tier: str = "") -> None:
        self._tier = tier

    def __repr__(self) -> str:
        return f"<InvokeStream {self._tier}>"

    def take(self, message: EventMessage) -> bytes:
        """Return the dialect's event in a message. Raises UpstreamMalformed."""
        if message.kind != "event":
            return converse_response.error_event(message)
        if message.headers.get(":event-type") != "chunk":
            return b""  # of an unknown kind
        try:
            data = _CHUNK.decode(message.payload).event
            kind = _TYPED.decode(data).type
            if self._tier and kind == "message_start":
                data = stated(data, self._tier, "message")
            return server_sent(kind, data)
        except UNREADABLE as error:
            raise UpstreamMalformed("an event that cannot be read") from error

    def end(self) -> bytes:
        """Return nothing, because nothing is kept."""
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
            new_render=lambda name, model, tier: InvokeStream(tier),
            tier=TierHeader("X-Amzn-Bedrock-Service-Tier", "service_tier", TIERS, stated),
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
            new_render=lambda name, model, tier: converse_response.ConverseStream(name, model),
            whole=converse_response.messages_body,
        ),
    }
)
