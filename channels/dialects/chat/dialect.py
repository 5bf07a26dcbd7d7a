"""The record of the chat-completions dialect: what the rest of the gateway knows of it."""

from __future__ import annotations

from typing import Any

from channels.dialects.address import Address
from channels.dialects.chat import ChatMeter, codec, ends
from channels.dialects.chat.hostings import HOSTINGS
from channels.dialects.chat.request import read_request, upstream_body, without_body
from channels.dialects.dialect import ChatDialect
from channels.families import CHAT
from channels.registry import ChannelSpec, ModelSpec


def _options(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    return {
        "upstream_model": upstream_model,
        "max_tokens_param": channel.max_tokens_param,
        "default_max_tokens": model.max_output_tokens,
    }


DIALECT = ChatDialect(
    family=CHAT,
    address=Address(path="/v1/chat/completions"),
    read_request=read_request,
    upstream_body=upstream_body,
    without_body=without_body,
    options=_options,
    new_meter=ChatMeter,
    has_terminator=True,
    ends=ends,
    upstream=codec,
    codec=codec,
    closing_failure=codec.closing_failure,
    takes_max_tokens_param=True,
    hostings=HOSTINGS,
)
