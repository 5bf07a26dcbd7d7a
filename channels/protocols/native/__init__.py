"""Facts of the native-content dialect: what a request may hold, how an answer is read.

`body.py` is the table of members, `request.py` checks and rewrites what the client sent, `chunk.py`
and `meter.py` read what the upstream answers, `array.py` is the stream's other form. No I/O here;
the request on the wire is made by `channels/adapters/native.py`.
"""

from __future__ import annotations

from channels.protocols.native.array import CONTENT_TYPE, ArrayFraming
from channels.protocols.native.meter import NativeMeter, ends
from channels.protocols.native.request import NativeRequest, read_request, upstream_body

PATH = "/v1beta/models/"

__all__ = [
    "CONTENT_TYPE",
    "PATH",
    "ArrayFraming",
    "NativeMeter",
    "NativeRequest",
    "ends",
    "read_request",
    "upstream_body",
]
