"""The request on the wire of a channel that speaks native-content (contract §2: Upstream wire).

Model and streaming are in the path. A stream is always asked for as server-sent events; what its
client asked for is made of them (`channels/dialects/gemini/array_stream.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from channels.dialects.gemini import PATH
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec

_PLAIN = ":generateContent"
_STREAM = ":streamGenerateContent?alt=sse"


def request(
    channel: ChannelSpec,
    body: bytes,
    *,
    upstream_model: str,
    stream: bool,
    extra_headers: Iterable[tuple[str, str]] = (),
) -> UpstreamRequest:
    """Address a body to a channel. `extra_headers` go last, such as traceparent."""
    return UpstreamRequest(
        "POST",
        f"{channel.base_url}{PATH}{quote(upstream_model, safe='')}{_STREAM if stream else _PLAIN}",
        (
            ("x-goog-api-key", channel.api_key),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            *extra_headers,
        ),
        body,
    )
