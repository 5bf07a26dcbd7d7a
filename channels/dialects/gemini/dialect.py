"""The record of the gemini dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from dataclasses import replace

from channels.credentials import KEY_HEADERS
from channels.dialects.address import MODEL, Address
from channels.dialects.dialect import ChatDialect, Counting
from channels.dialects.gemini import response_encoder
from channels.dialects.gemini.decode import decode_request
from channels.dialects.gemini.encode import encode_request, tool_names
from channels.dialects.gemini.meter import GeminiMeter, ends
from channels.dialects.gemini.request import read_request, upstream_body, without_body
from channels.dialects.gemini.response_decoder import GeminiResponseDecoder
from channels.dialects.gemini.signatures import without_foreign
from channels.families import GEMINI
from channels.translation.codec import Codec

# Upstreams are always sent requests for server-sent events; `array_stream.py` makes the other form.
_ADDRESS = Address(
    path=f"/v1beta/models/{MODEL}",
    action=":generateContent",
    stream_action=":streamGenerateContent?alt=sse",
    key=KEY_HEADERS["x-goog-api-key"],
    models_path="/v1beta/models",
)

DIALECT = ChatDialect(
    family=GEMINI,
    address=_ADDRESS,
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    without_foreign=without_foreign,
    new_meter=GeminiMeter,
    has_terminator=False,
    ends=ends,
    codec=Codec(
        decode_request=decode_request,
        encode_request=encode_request,
        tool_names=tool_names,
        new_decoder=GeminiResponseDecoder,
        new_encoder=response_encoder.GeminiStreamEncoder,
        new_body_encoder=response_encoder.GeminiBodyEncoder,
        keep_alive=response_encoder.KEEP_ALIVE,
    ),
    takes_is_here=True,
    counting=Counting(
        address=replace(_ADDRESS, action=":countTokens", accept="application/json"),
        member="totalTokens",
        needs=("contents", "generateContentRequest"),
        is_in_path=True,
        a_text=1.08,
        a_turn=0,
        a_call=6,
        an_image=258,
    ),
)
