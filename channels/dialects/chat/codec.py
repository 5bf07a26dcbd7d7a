"""The chat-completions codec: requests, whole responses and streams, to the canonical model and
back.

Facts of the dialect itself, such as what a valid request is, are `channels/dialects/chat`.
"""

from __future__ import annotations

from channels.dialects.chat.decode import decode_request
from channels.dialects.chat.encode import encode_request, tool_names
from channels.dialects.chat.response import decode_response, encode_response
from channels.dialects.chat.stream_decoder import StreamDecoder
from channels.dialects.chat.stream_encoder import KEEP_ALIVE, StreamEncoder, closing_failure

__all__ = [
    "KEEP_ALIVE",
    "StreamDecoder",
    "StreamEncoder",
    "closing_failure",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "tool_names",
]
