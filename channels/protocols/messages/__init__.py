"""Facts of the messages dialect: what a request may hold, how an answer is read.

`body.py` is the table of members, `request.py` checks and rewrites what the client sent, `event.py`
and `meter.py` read what the upstream answers. No I/O here; the request on the wire is made by
`channels/adapters/messages.py`.
"""

from __future__ import annotations

from channels.protocols.messages.meter import MessagesMeter, ends
from channels.protocols.messages.request import MessagesRequest, read_request, upstream_body

PATH = "/v1/messages"
# The version of a client that names none (contract §5).
VERSION = "2023-06-01"

__all__ = [
    "PATH",
    "VERSION",
    "MessagesMeter",
    "MessagesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
