"""Request bodies and read answers for the tests of the chat-completions dialect."""

import json

from channels.dialects.chat.meter import ChatMeter
from channels.dialects.chat.request import read_request, upstream_body

MESSAGES = b'"messages":[{"role":"user","content":"Hi"}]'


def body(*members: bytes) -> bytes:
    """A valid body and some more members."""
    return b"{" + b",".join((b'"model":"m"', MESSAGES, *members)) + b"}"


def forwarded(
    request: bytes, *, model: str = "m", name: str | None = "max_tokens", most: int | None = None
) -> bytes:
    """What a channel is sent of a client's body."""
    return upstream_body(
        read_request(request), upstream_model=model, max_tokens_param=name, default_max_tokens=most
    )


def metered(*events: object) -> ChatMeter:
    """A meter that has read some events, as bytes or as values."""
    meter = ChatMeter()
    for event in events:
        meter.take_event(
            meter.read_event(event if isinstance(event, bytes) else json.dumps(event).encode())
        )
    return meter
