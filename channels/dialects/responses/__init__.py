"""The responses dialect: requests, responses and streams (spec: Responses protocol).

`dialect.py` is what the rest of the gateway knows of it. Passed through: `request.py` is the table
of members, `request.py` validates and rewrites what the client sent, `events.py` and
`events.py` read what the upstream answers. As the upstream of a translation: `codec.py`
lists encoder and decoder. No I/O here.
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
