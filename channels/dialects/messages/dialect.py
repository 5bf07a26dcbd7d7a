"""The record of the messages dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.address import MODEL, Address
from channels.dialects.dialect import ChatDialect, Counting
from channels.dialects.hosting import Hosting, TierHeader
from channels.dialects.messages.converse import (
    TIERED,
    TIERS,
    ConverseStream,
    converse_body,
    error_event,
    messages_body,
)
from channels.dialects.messages.decode import decode_request
from channels.dialects.messages.encode import encode_request, tool_names
from channels.dialects.messages.events import MessagesMeter, ends
from channels.dialects.messages.request import options_of, read_request, upstream_body, without_body
from channels.dialects.messages.stream import (
    KEEP_ALIVE,
    StreamDecoder,
    StreamEncoder,
    decode_response,
    encode_response,
)
from channels.errors import UpstreamMalformed
from channels.families import MESSAGES
from channels.http.sse import EventMessage, server_sent
from channels.json.json_object import InvalidJson, JsonObject
from channels.json.lenient import UNREADABLE
from channels.registry import KEY_HEADERS
from channels.translation.codec import Codec
from channels.translation.signatures import TAG, UNSIGNED, RawTurn, edited, opened

# The messages dialect as hosted by Vertex AI and Bedrock: the model is in the path.
#
# Vertex AI: rawPredict and streamRawPredict, with the provider's own stream. Bedrock: invoke and
# invoke-with-response-stream, with events in Amazon's framing; for models other than claude, which
# do not support the dialect, Converse, which expresses the same by other names.

BETA_HEADER = "anthropic-beta"


class _Chunk(Struct):
    """The payload of an event: the dialect's own event, in base64."""

    event: bytes = msgspec.field(name="bytes")


class _Typed(Struct):
    type: str


_CHUNK = msgspec.json.Decoder(_Chunk)
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
            return error_event(message)
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
            new_render=lambda name, model, tier: ConverseStream(name, model),
            whole=messages_body,
        ),
    }
)


# Removes signatures of other providers from a request that is not translated.
#
# The reason is in `channels/translation/signatures.py`.

_SIGNED = {"thinking": "signature", "redacted_thinking": "data"}


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """Return the body without foreign signatures; the same object if there are none."""
    if TAG.encode() not in outline:
        return body
    return edited(body, "messages", _without_in_message, _switched_off)


def _switched_off(members: JsonObject, kept: list[RawTurn]) -> dict[str, bytes]:
    """Disable thinking if a turn that continues after tool results has lost its thoughts."""
    if _must_think(members) and _is_amid_calls(kept):
        return {"thinking": b'{"type":"disabled"}'}
    return {}


def _without_in_message(message: RawTurn) -> RawTurn | None:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not _is_foreign(block)]
    if len(kept) == len(content):
        return message
    return {**message, "content": kept} if kept else None


def _is_foreign(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, Mapping) else None
    proof = block.get(_SIGNED[kind]) if isinstance(kind, str) and kind in _SIGNED else None
    if not isinstance(proof, str):
        return False
    return proof == UNSIGNED or opened(proof, own=MESSAGES.protocol)[1] != MESSAGES.protocol


def _must_think(members: JsonObject) -> bool:
    thinking = members.raw.get("thinking")
    stated = None if thinking is None else msgspec.json.decode(thinking)
    return isinstance(stated, Mapping) and stated.get("type") == "enabled"


def _is_amid_calls(messages: list[RawTurn]) -> bool:
    """Whether the model's last turn called tools and has no thoughts, or none any more."""
    last = next((one for one in reversed(messages) if one.get("role") == "assistant"), None)
    content = None if last is None else last.get("content")
    if not isinstance(content, list):
        return False
    kinds = {block.get("type") for block in content if isinstance(block, Mapping)}
    return "tool_use" in kinds and kinds.isdisjoint(_SIGNED)


VERSION_HEADER = "anthropic-version"
# The version for a client that sends none (contract §5).
VERSION = "2023-06-01"

_ADDRESS = Address(
    path="/v1/messages",
    key=KEY_HEADERS["x-api-key"],
    own=((VERSION_HEADER, VERSION),),
)

DIALECT = ChatDialect(
    family=MESSAGES,
    address=_ADDRESS,
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    options=options_of,
    without_foreign=without_foreign,
    header_prefix="anthropic-",
    new_meter=MessagesMeter,
    has_terminator=True,
    ends=ends,
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        decode_response=decode_response,
        encode_response=encode_response,
        new_decoder=StreamDecoder,
        new_encoder=StreamEncoder,
        keep_alive=KEEP_ALIVE,
    ),
    hostings=HOSTINGS,
    needs_max_tokens=True,
    marks_cache=True,
    counting=Counting(
        address=replace(_ADDRESS, action="/count_tokens", accept="application/json"),
        member="input_tokens",
        needs=("messages",),
        a_text=1.02,
        a_call=18,
        an_image=1500,
        any_tools=346,
    ),
)
