"""The request on the wire of a channel that speaks messages (contract §2: Upstream wire).

The body is made by `channels/dialects/messages`; the client's own key is nowhere near it.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels.dialects.messages import PATH, VERSION
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec


def request(
    channel: ChannelSpec,
    body: bytes,
    *,
    version: str = VERSION,
    extra_headers: Iterable[tuple[str, str]] = (),
) -> UpstreamRequest:
    """Address a body to a channel. `version` is the client's, where it speaks this protocol too."""
    return UpstreamRequest(
        "POST",
        channel.base_url + PATH,
        (
            ("x-api-key", channel.api_key),
            ("anthropic-version", version),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            *extra_headers,
        ),
        body,
    )
