"""The messages dialect: requests, responses and streams (spec: Messages protocol).

Natively: `schema.py` is the table of a request's members, `request.py` validates and rewrites what
the client sent, `event.py` and `meter.py` read what the upstream answers, `address.py` is the
request on a channel's wire. Translated: `codec.py` lists the decoders and encoders beside it. No
I/O here.
"""

from __future__ import annotations

from channels.dialects.messages.meter import MessagesMeter, ends
from channels.dialects.messages.request import MessagesRequest, read_request, upstream_body

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
