"""The record of the responses dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect, Counting
from channels.dialects.responses import response_encoder
from channels.dialects.responses.decode import decode_request
from channels.dialects.responses.encode import encode_request, tool_names
from channels.dialects.responses.meter import ResponsesMeter, ends
from channels.dialects.responses.request import read_request, upstream_body, without_body
from channels.dialects.responses.response_decoder import ResponsesResponseDecoder
from channels.dialects.responses.signatures import without_foreign
from channels.families import RESPONSES
from channels.translation.codec import Codec

DIALECT = ChatDialect(
    family=RESPONSES,
    address=Address(path="/v1/responses"),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    without_foreign=without_foreign,
    header_prefix="openai-",
    new_meter=ResponsesMeter,
    has_terminator=True,
    ends=ends,
    counting=Counting(
        address=Address(path="/v1/responses", action="/input_tokens", accept="application/json"),
        member="input_tokens",
        rest={"object": "response.input_tokens"},
        a_text=0.97,
        an_image=765,
    ),
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        new_decoder=ResponsesResponseDecoder,
        new_encoder=response_encoder.ResponsesStreamEncoder,
        new_body_encoder=response_encoder.ResponsesBodyEncoder,
        keep_alive=response_encoder.KEEP_ALIVE,
    ),
    has_system_anywhere=True,
    takes_cache_key=True,
)

# Compacts a conversation to one item; the response is whole and states its usage.
COMPACT = Address(path="/v1/responses", action="/compact", accept="application/json")
