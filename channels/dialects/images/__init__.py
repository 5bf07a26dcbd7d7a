"""The images dialect: requests, and responses counted by the piece (spec: Images).

`schema.py` is the table of a request's members, `request.py` validates what the client sent,
`response.py` counts what the upstream made, `address.py` is the request on a channel's wire. No I/O
here.
"""

from __future__ import annotations

from channels.dialects.images.request import ImagesRequest, read_request, upstream_body
from channels.dialects.images.response import ImagesAnswer, read_answer
from channels.dialects.images.size import pixels_of

PATH = "/v1/images/generations"

__all__ = [
    "PATH",
    "ImagesAnswer",
    "ImagesRequest",
    "pixels_of",
    "read_answer",
    "read_request",
    "upstream_body",
]
