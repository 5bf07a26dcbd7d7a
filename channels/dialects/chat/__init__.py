"""The chat-completions dialect: requests, responses and streams (spec: Chat-completions).

`dialect.py` is what the rest of the gateway knows of it. Passed through: `request.py` is the table
of members, `request.py` validates and rewrites what the client sent, `events.py` and
`meter.py` read what the upstream answers. Translated: `codec.py` lists the decoders and encoders
beside it. No I/O here.
"""

from __future__ import annotations

from channels.dialects.chat.meter import ChatMeter, ends
from channels.dialects.chat.request import ChatRequest, read_request, upstream_body
from channels.dialects.error_body import error_message
from channels.dialects.meter import ErrorEvent
from channels.errors import InvalidRequest

TERMINATOR = b"[DONE]"

__all__ = [
    "TERMINATOR",
    "ChatMeter",
    "ChatRequest",
    "ErrorEvent",
    "InvalidRequest",
    "ends",
    "error_message",
    "read_request",
    "upstream_body",
]
