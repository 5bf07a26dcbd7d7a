"""The native-content dialect, Gemini's (spec: Native-content).

`dialect.py` has its record, which the rest of the gateway uses. `request.py` validates and edits
requests by a table of members, `events.py` parses responses and their usage, `array_stream.py`
writes the other form of a stream. `codec.py` lists the decoders and encoders of translations. No
I/O here.
"""

from __future__ import annotations

from channels.dialects.gemini.array_stream import CONTENT_TYPE, ArrayFraming
from channels.dialects.gemini.events import GeminiMeter, ends
from channels.dialects.gemini.request import GeminiRequest, read_request, upstream_body

__all__ = [
    "CONTENT_TYPE",
    "ArrayFraming",
    "GeminiMeter",
    "GeminiRequest",
    "ends",
    "read_request",
    "upstream_body",
]
