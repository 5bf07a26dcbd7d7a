"""The record of the chat-completions dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.chat.decode import decode_request
from channels.dialects.chat.encode import encode_request, tool_names
from channels.dialects.chat.events import is_terminator
from channels.dialects.chat.hostings import HOSTINGS
from channels.dialects.chat.meter import ChatMeter
from channels.dialects.chat.request import chat_options, read_request, upstream_body, without_body
from channels.dialects.chat.response import decode_response, encode_response
from channels.dialects.chat.stream import (
    KEEP_ALIVE,
    ChatStreamDecoder,
    ChatStreamEncoder,
    closing_failure,
)
from channels.dialects.dialect import ChatDialect
from channels.families import CHAT
from channels.translation.codec import Codec

DIALECT = ChatDialect(
    family=CHAT,
    address=Address(path="/v1/chat/completions"),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    options=chat_options,
    header_prefix="openai-",
    new_meter=ChatMeter,
    has_terminator=True,
    ends=is_terminator,
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        decode_response=decode_response,
        encode_response=encode_response,
        new_decoder=ChatStreamDecoder,
        new_encoder=ChatStreamEncoder,
        keep_alive=KEEP_ALIVE,
    ),
    closing_failure=closing_failure,
    takes_max_tokens_param=True,
    has_system_anywhere=True,
    takes_cache_key=True,
    hostings=HOSTINGS,
)
