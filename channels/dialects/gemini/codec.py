"""The gemini codec: requests, whole responses and streams, to the canonical model and back.

`channels/dialects/gemini` has the facts of the dialect itself, such as the form of a valid request.
"""

from __future__ import annotations

from channels.dialects.gemini.decode import decode_request
from channels.dialects.gemini.encode import encode_request, tool_names
from channels.dialects.gemini.response import (
    KEEP_ALIVE,
    StreamEncoder,
    decode_response,
    encode_response,
)
from channels.dialects.gemini.stream_decoder import StreamDecoder

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
