"""The record of the chat-completions dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.chat import request, response_encoder
from channels.dialects.chat.decode import decode_request
from channels.dialects.chat.encode import encode_request, tool_names
from channels.dialects.chat.events import is_terminator
from channels.dialects.chat.hostings import HOSTINGS
from channels.dialects.chat.meter import ChatMeter
from channels.dialects.chat.plain_request import read_plain
from channels.dialects.chat.response_decoder import ChatResponseDecoder
from channels.dialects.dialect import ChatDialect
from channels.families import CHAT
from channels.translation.codec import Codec

DIALECT = ChatDialect(
    family=CHAT,
    address=Address(path="/v1/chat/completions"),
    read_request=request.read_request,
    upstream_body=request.upstream_body,
    without_body=request.without_body,
    options=request.chat_options,
    header_prefix="openai-",
    new_meter=ChatMeter,
    has_terminator=True,
    ends=is_terminator,
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        new_decoder=ChatResponseDecoder,
        new_encoder=response_encoder.ChatStreamEncoder,
        new_body_encoder=response_encoder.ChatBodyEncoder,
        keep_alive=response_encoder.KEEP_ALIVE,
        keeps_tools=True,
        read_plain=read_plain,
    ),
    closing_failure=response_encoder.closing_failure,
    takes_max_tokens_param=True,
    has_system_anywhere=True,
    takes_cache_key=True,
    hostings=HOSTINGS,
)
