"""The images dialect: requests, and responses counted by the piece (spec: Images).

`dialect.py` is what the rest of the gateway knows of it. `dialect.py` is the table of a request's
members, `dialect.py` validates what the client sent, `dialect.py` counts what the upstream made.
No I/O here.
"""

from __future__ import annotations

from channels.dialects.images.dialect import (
    ImagesRequest,
    ImagesResponse,
    parse_response,
    pixels_of,
    read_request,
)

__all__ = [
    "ImagesRequest",
    "ImagesResponse",
    "parse_response",
    "pixels_of",
    "read_request",
]
