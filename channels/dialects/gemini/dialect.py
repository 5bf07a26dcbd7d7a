"""The record of the gemini dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from urllib.parse import quote

from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect
from channels.dialects.gemini import GeminiMeter, codec, ends
from channels.dialects.gemini.request import read_request, upstream_body, without_body
from channels.dialects.gemini.strip_signatures import without_foreign
from channels.families import GEMINI


def _path(upstream_model: str, stream: bool) -> str:
    """Model and streaming are in it. A stream is always asked for as server-sent events; what its
    client asked for is made of them (`array_stream.py`)."""
    verb = ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    return f"/v1beta/models/{quote(upstream_model, safe='')}{verb}"


DIALECT = ChatDialect(
    family=GEMINI,
    address=Address(path=_path, key=lambda api_key: ("x-goog-api-key", api_key)),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    without_foreign=without_foreign,
    new_meter=GeminiMeter,
    has_terminator=False,
    ends=ends,
    upstream=codec,
    codec=codec,
)
