"""The request on the wire of a channel that makes images (contract §2: Upstream wire).

The body is made by `channels/dialects/images`. Of the client's headers none is passed on: neither
its key nor its `Idempotency-Key`, which is a matter between the client and the gateway.
"""

from __future__ import annotations

from channels.dialects.images import PATH
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec


def request(channel: ChannelSpec, body: bytes) -> UpstreamRequest:
    """Address a body to a channel."""
    return UpstreamRequest(
        "POST",
        channel.base_url + PATH,
        (
            ("Authorization", f"Bearer {channel.api_key}"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
        ),
        body,
    )
