"""The record of the messages dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from channels.credentials import KEY_HEADERS
from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect
from channels.dialects.messages import VERSION, MessagesMeter, codec, ends
from channels.dialects.messages.hostings import HOSTINGS
from channels.dialects.messages.request import read_request, upstream_body, without_body
from channels.dialects.messages.strip_signatures import without_foreign
from channels.families import MESSAGES

VERSION_HEADER = "anthropic-version"

DIALECT = ChatDialect(
    family=MESSAGES,
    address=Address(
        path="/v1/messages",
        key=KEY_HEADERS["x-api-key"],
        own=((VERSION_HEADER, VERSION),),
    ),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    options=lambda upstream_model, channel, model: {"upstream_model": upstream_model},
    without_foreign=without_foreign,
    new_meter=MessagesMeter,
    has_terminator=True,
    ends=ends,
    upstream=codec,
    codec=codec,
    hostings=HOSTINGS,
    needs_max_tokens=True,
)
