"""The record of the responses dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from channels.dialects.dialect import Address, ChatDialect, Counting
from channels.dialects.responses import ResponsesMeter, codec, ends
from channels.dialects.responses.request import read_request, upstream_body, without_body
from channels.families import RESPONSES

DIALECT = ChatDialect(
    family=RESPONSES,
    address=Address(path="/v1/responses"),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    new_meter=ResponsesMeter,
    has_terminator=True,
    ends=ends,
    upstream=codec,
    counting=Counting(
        address=Address(path="/v1/responses", action="/input_tokens", accept="application/json"),
        member="input_tokens",
        rest={"object": "response.input_tokens"},
        a_text=0.97,
        an_image=765,
    ),
)
