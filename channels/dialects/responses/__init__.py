"""The responses dialect: requests, responses and streams (spec: Responses protocol).

Natively: `schema.py` is the table of a request's members, `request.py` validates and rewrites what
the client sent, `event.py` and `meter.py` read what the upstream answers, `address.py` is the
request on a channel's wire. As the upstream of a translation: `codec.py` lists encoder and decoder.
No I/O here.
"""

from __future__ import annotations

from channels.dialects.responses.meter import ResponsesMeter, ends
from channels.dialects.responses.request import ResponsesRequest, read_request, upstream_body

PATH = "/v1/responses"

__all__ = [
    "PATH",
    "ResponsesMeter",
    "ResponsesRequest",
    "ends",
    "read_request",
    "upstream_body",
]
