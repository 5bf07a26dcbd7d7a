"""The chat-completions dialect: requests, responses and streams (spec: Chat-completions).

`dialect.py` is its record for the rest of the gateway. Passthrough: `request.py` has the table of
members, validates and edits the client's request; `events.py` reads the upstream's response.
Translation: `codec.py` lists the decoders and encoders. No I/O here.
"""

from __future__ import annotations

from channels.dialects.chat.events import ChatMeter, ends
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
