"""The native-content dialect, which is Gemini's (spec: Native-content).

`dialect.py` is what the rest of the gateway knows of it. Passed through: `request.py` is the table
of members, `request.py` validates and rewrites what the client sent, `events.py` and `events.py`
read what the upstream answers, `array_stream.py` is the stream's other form. Translated: `codec.py`
lists the decoders and encoders beside it. No I/O here.
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
