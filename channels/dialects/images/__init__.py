"""The images dialect: requests, and responses counted by the piece (spec: Images).

`dialect.py` has its record, the table of a request's members, their validation, and the count of
the pictures made. No I/O here.
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
