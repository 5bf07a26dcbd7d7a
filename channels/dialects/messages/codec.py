"""The messages codec: requests, whole responses and streams, to the canonical model and back.

Facts of the dialect itself, such as valid requests, are in `channels/dialects/messages`.
"""

from __future__ import annotations

from channels.dialects.messages.decode import decode_request
from channels.dialects.messages.encode import encode_request, tool_names
from channels.dialects.messages.stream import (
    KEEP_ALIVE,
    StreamDecoder,
    StreamEncoder,
    decode_response,
    encode_response,
)

__all__ = [
    "KEEP_ALIVE",
    "StreamDecoder",
    "StreamEncoder",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "tool_names",
]
