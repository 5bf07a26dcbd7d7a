"""The responses codec, as an upstream's side: requests out, streams in.

Chat-completions calls with built-in tools run over it (spec: Built-in tool rules); no client's
protocol is translated from responses, so there is no way back. Facts of the dialect itself are
`channels/dialects/responses`.
"""

from __future__ import annotations

from channels.dialects.responses.encode import encode_request, tool_names
from channels.dialects.responses.stream import StreamDecoder

__all__ = ["StreamDecoder", "encode_request", "tool_names"]
