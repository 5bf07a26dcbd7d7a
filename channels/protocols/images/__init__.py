"""Facts of the images protocol: what a request may hold, how an answer is counted (spec: Images).

`body.py` is the table of members, `request.py` checks what the client sent and `answer.py` reads
what the upstream made. No I/O here; the request on the wire is `channels/adapters/images.py`.
"""

from __future__ import annotations

from channels.protocols.images.answer import ImagesAnswer, read_answer
from channels.protocols.images.request import ImagesRequest, read_request, upstream_body
from channels.protocols.images.size import pixels_of

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
