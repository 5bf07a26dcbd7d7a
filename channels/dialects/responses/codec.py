"""The responses codec: requests, whole responses and streams, to the canonical model and back.

Facts of the dialect itself, such as valid requests, are in `channels/dialects/responses`.
"""

from __future__ import annotations

from channels.dialects.responses.decode import decode_request
from channels.dialects.responses.encode import encode_request, tool_names
from channels.dialects.responses.response import KEEP_ALIVE, StreamEncoder, encode_response
from channels.dialects.responses.stream import StreamDecoder, decode_response

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
