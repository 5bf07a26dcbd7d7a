"""Facts of the responses dialect: what a request may hold, how an answer is read.

`body.py` is the table of members, `request.py` checks and rewrites what the client sent, `event.py`
and `meter.py` read what the upstream answers. No I/O here; the request on the wire is made by
`channels/adapters/responses.py`.
"""

from __future__ import annotations

from channels.protocols.responses.meter import ResponsesMeter, ends
from channels.protocols.responses.request import ResponsesRequest, read_request, upstream_body

PATH = "/v1/responses"

__all__ = [
    "PATH",
    "ResponsesMeter",
    "ResponsesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
