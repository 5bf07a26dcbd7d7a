"""The request on the wire of a channel, whichever chat protocol it is spoken to in.

For callers that learn the protocol only when they know the channel. One file per protocol stands
beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels.dialects.chat import address as chat
from channels.dialects.gemini import address as native
from channels.dialects.messages import VERSION
from channels.dialects.messages import address as messages
from channels.dialects.responses import address as responses
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec


def address(
    protocol: str,
    channel: ChannelSpec,
    body: bytes,
    *,
    upstream_model: str,
    stream: bool,
    version: str = VERSION,
    extra_headers: Iterable[tuple[str, str]] = (),
) -> UpstreamRequest:
    """Address a body in `protocol` to a channel.

    `version` matters to messages only, `upstream_model` and `stream` to native only. Raises
    KeyError for a protocol that is no chat protocol.
    """
    if protocol == "chat":
        return chat.request(channel, body, extra_headers=extra_headers)
    if protocol == "messages":
        return messages.request(channel, body, version=version, extra_headers=extra_headers)
    if protocol == "responses":
        return responses.request(channel, body, extra_headers=extra_headers)
    if protocol == "native":
        return native.request(
            channel,
            body,
            upstream_model=upstream_model,
            stream=stream,
            extra_headers=extra_headers,
        )
    raise KeyError(protocol)
