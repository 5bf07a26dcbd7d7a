"""The record of the gemini dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from channels.dialects.dialect import MODEL, Address, ChatDialect
from channels.dialects.gemini import GeminiMeter, codec, ends
from channels.dialects.gemini.parts import without_foreign
from channels.dialects.gemini.request import read_request, upstream_body, without_body
from channels.families import GEMINI
from channels.registry import KEY_HEADERS

DIALECT = ChatDialect(
    family=GEMINI,
    # A stream is always asked for as server-sent events; what its client requested is made of them
    # (`array_stream.py`).
    address=Address(
        path=f"/v1beta/models/{MODEL}",
        action=":generateContent",
        stream_action=":streamGenerateContent?alt=sse",
        key=KEY_HEADERS["x-goog-api-key"],
        models_path="/v1beta/models",
    ),
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
)
