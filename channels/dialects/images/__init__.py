"""The images dialect: requests, and responses counted by the piece (spec: Images).

`dialect.py` is what the rest of the gateway knows of it. `schema.py` is the table of a request's
members, `request.py` validates what the client sent, `response.py` counts what the upstream made.
No I/O here.
"""

from __future__ import annotations

from channels.dialects.images.request import ImagesRequest, read_request, upstream_body
from channels.dialects.images.response import ImagesResponse, parse_response
from channels.dialects.images.size import pixels_of

__all__ = [
    "ImagesRequest",
    "ImagesResponse",
    "parse_response",
    "pixels_of",
    "read_request",
    "upstream_body",
]
