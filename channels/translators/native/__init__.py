"""The native-content codec: requests, whole answers and streams, to the canonical model and back.

Facts of the dialect itself, such as what a valid request is, are `channels/protocols/native`.
"""

from __future__ import annotations

from channels.translators.native.answer import decode_answer, encode_answer
from channels.translators.native.encode import encode_request, tool_names
from channels.translators.native.request import decode_request
from channels.translators.native.stream_decoder import StreamDecoder
from channels.translators.native.stream_encoder import KEEP_ALIVE, StreamEncoder

__all__ = [
    "KEEP_ALIVE",
    "StreamDecoder",
    "StreamEncoder",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_request",
    "tool_names",
]
