"""Facts of the chat-completions dialect: what a request may hold, how an answer is read.

`body.py` is the table of members, `request.py` checks and rewrites what the client sent,
`meter.py` reads what the upstream answers. No I/O here; the request on the wire is made by
`channels/adapters/chat.py`.
"""

from __future__ import annotations

from channels.errors import InvalidRequest
from channels.protocols.chat.meter import ChatMeter, ends
from channels.protocols.chat.request import ChatRequest, read_request, upstream_body
from channels.protocols.error_body import error_message
from channels.protocols.meter import ErrorEvent

PATH = "/v1/chat/completions"
TERMINATOR = b"[DONE]"

__all__ = [
    "PATH",
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
