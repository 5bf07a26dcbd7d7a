"""The responses dialect: requests, responses and streams (spec: Responses protocol).

`dialect.py` is its record for the rest of the gateway. Passthrough: `request.py` has the table of
members, validates and edits the client's request; `events.py` decodes and meters the upstream's
response. Translation: `codec.py` lists the decoders and encoders. No I/O here.
"""

from __future__ import annotations

from channels.dialects.responses.events import ResponsesMeter, ends
from channels.dialects.responses.request import ResponsesRequest, read_request, upstream_body

__all__ = [
    "ResponsesMeter",
    "ResponsesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
