"""The record of the gemini dialect, by which the rest of the gateway uses it."""

from __future__ import annotations

from dataclasses import replace

from channels.dialects.dialect import MODEL, Address, ChatDialect, Counting
from channels.dialects.gemini import codec
from channels.dialects.gemini.events import GeminiMeter, ends
from channels.dialects.gemini.parts import without_foreign
from channels.dialects.gemini.request import read_request, upstream_body, without_body
from channels.families import GEMINI
from channels.registry import KEY_HEADERS

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
    upstream=codec,
    codec=codec,
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
