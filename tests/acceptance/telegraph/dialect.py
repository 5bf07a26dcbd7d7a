"""The record of the telegraph dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect
from channels.translation.codec import Codec
from tests.acceptance.telegraph import codec
from tests.acceptance.telegraph.family import TELEGRAPH
from tests.acceptance.telegraph.meter import TelegraphMeter, ends
from tests.acceptance.telegraph.request import read_request, upstream_body, without_body

DIALECT = ChatDialect(
    family=TELEGRAPH,
    address=Address(path="/wire", key=lambda api_key: ("X-Operator", api_key)),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    new_meter=TelegraphMeter,
    has_terminator=True,
    ends=ends,
    codec=Codec(
        decode_request=codec.decode_request,
        encode_request=codec.encode_request,
        tool_names=codec.tool_names,
        new_decoder=codec.ResponseDecoder,
        new_encoder=codec.StreamEncoder,
        new_body_encoder=codec.BodyEncoder,
        keep_alive=codec.KEEP_ALIVE,
    ),
)
