"""The record of the messages dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from dataclasses import replace

from channels.credentials import KEY_HEADERS
from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect, Counting
from channels.dialects.messages import request, response_encoder
from channels.dialects.messages.decode import decode_request
from channels.dialects.messages.encode import encode_request, tool_names
from channels.dialects.messages.events import text_run
from channels.dialects.messages.hostings import HOSTINGS
from channels.dialects.messages.meter import MessagesMeter, ends
from channels.dialects.messages.response_decoder import MessagesResponseDecoder
from channels.dialects.messages.signatures import without_foreign
from channels.families import MESSAGES
from channels.translation.codec import Codec

VERSION_HEADER = "anthropic-version"
# The version for a client that sends none (reference 1.9).
VERSION = "2023-06-01"

_ADDRESS = Address(
    path="/v1/messages",
    key=KEY_HEADERS["x-api-key"],
    own=((VERSION_HEADER, VERSION),),
)

DIALECT = ChatDialect(
    family=MESSAGES,
    address=_ADDRESS,
    read_request=request.read_request,
    upstream_body=request.upstream_body,
    without_body=request.without_body,
    options=request.options_of,
    without_foreign=without_foreign,
    header_prefix="anthropic-",
    new_meter=MessagesMeter,
    has_terminator=True,
    ends=ends,
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        new_decoder=MessagesResponseDecoder,
        new_encoder=response_encoder.MessagesStreamEncoder,
        new_body_encoder=response_encoder.MessagesBodyEncoder,
        keep_alive=response_encoder.KEEP_ALIVE,
        keeps_tools=True,
        text_run=text_run,
        pass_texts=MessagesResponseDecoder.pass_texts,
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
