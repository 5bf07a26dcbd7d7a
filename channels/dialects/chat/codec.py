"""The chat-completions codec: requests, whole responses and streams, to the canonical model and
back.

Facts of the dialect itself, such as valid requests, are in `channels/dialects/chat`.
"""

from __future__ import annotations

from channels.dialects.chat.decode import decode_request
from channels.dialects.chat.encode import encode_request, tool_names
from channels.dialects.chat.stream import (
    KEEP_ALIVE,
    StreamDecoder,
    StreamEncoder,
    closing_failure,
    decode_response,
    encode_response,
)

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
