"""The request on the wire of a channel that speaks chat-completions (contract §2: Upstream wire).

The body is made by `channels/dialects/chat`; the client's own key is nowhere near it.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels.dialects.chat import PATH
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec


def request(
    channel: ChannelSpec, body: bytes, *, extra_headers: Iterable[tuple[str, str]] = ()
) -> UpstreamRequest:
    """Address a body to a channel. `extra_headers` go last, such as traceparent."""
    return UpstreamRequest(
        "POST",
        channel.base_url + PATH,
        (
            ("Authorization", f"Bearer {channel.api_key}"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            *extra_headers,
        ),
        body,
    )
