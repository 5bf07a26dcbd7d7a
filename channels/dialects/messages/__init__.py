"""The messages dialect: requests, responses and streams (spec: Messages protocol).

`dialect.py` is what the rest of the gateway knows of it. Passed through: `request.py` is the table
of members, `request.py` validates and rewrites what the client sent, `events.py` and
`events.py` read what the upstream answers. Translated: `codec.py` lists the decoders and encoders
beside it. No I/O here.
"""

from __future__ import annotations

from channels.dialects.messages.events import MessagesMeter, ends
from channels.dialects.messages.request import MessagesRequest, read_request, upstream_body

# The version of a client that names none (contract §5).
VERSION = "2023-06-01"

__all__ = [
    "VERSION",
    "MessagesMeter",
    "MessagesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
