"""The messages dialect: requests, responses and streams (spec: Messages protocol).

`dialect.py` is its record for the rest of the gateway. Passthrough: `request.py` has the table of
members, validates and edits the client's request; `events.py` decodes and meters the upstream's
response. Translation: `codec.py` lists the decoders and encoders. No I/O here.
"""

from __future__ import annotations

from channels.dialects.messages.events import MessagesMeter, ends
from channels.dialects.messages.request import MessagesRequest, read_request, upstream_body

# The version for a client that sends none (contract §5).
VERSION = "2023-06-01"

__all__ = [
    "VERSION",
    "MessagesMeter",
    "MessagesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
