"""The messages codec: requests, whole answers and streams, to the canonical model and back.

Facts of the dialect itself, such as what a valid request is, are `channels/protocols/messages`.
"""

from __future__ import annotations

from channels.translators.messages.answer import decode_answer, encode_answer
from channels.translators.messages.encode import encode_request, tool_names
from channels.translators.messages.request import decode_request
from channels.translators.messages.stream_decoder import StreamDecoder
from channels.translators.messages.stream_encoder import KEEP_ALIVE, StreamEncoder

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
