"""`response.create`: the message of a WebSocket that is one call of the responses protocol.

It is the body of a call with members of the socket's own, which no upstream gets. What goes before
its items, those of the response that it continues, is put in by whoever keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject

# Members that a body does not have, or that are written anew.
_OF_SOCKET = ("type", "generate", "previous_response_id", "stream", "input")
_BEFORE_ITEMS = b'{"input":['


class CreateMessage(Struct, frozen=True):
    """What a message says of its socket; its items, joined by commas, are `body[start:end]`."""

    previous_response_id: str | None
    generates: bool
    start: int
    end: int

    def continued(self, body: bytes, kept: Sequence[bytes]) -> bytes:
        """Return the body of the call with the items kept before its own."""
        if not kept:
            return body
        view = memoryview(body)
        pieces: list[bytes | memoryview] = [view[: self.start]]
        for items in kept:
            pieces += [items, b","]
        if self.end == self.start:
            pieces.pop()
        return b"".join((*pieces, view[self.start :]))


class _Message(Struct):
    type: str
    previous_response_id: str | None = None
    generate: bool = True
    input: Raw = Raw()
    stream_id: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def read_create(message: bytes) -> tuple[CreateMessage, bytes]:
    """Return what a message says, and the body of its call. Raises InvalidRequest."""
    members = JsonObject.parse(message)
    try:
        read = _MESSAGE.decode(message)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The message is not as documented: {error}.") from None
    if read.type != "response.create":
        raise InvalidRequest("type: expected response.create.", "type")
    if read.stream_id is not None:
        raise InvalidRequest("stream_id: a socket has one conversation.", "stream_id")
    items = _items(read.input)
    pieces: list[bytes | memoryview | Raw] = [_BEFORE_ITEMS, items, b'],"stream":true']
    for name, value in members.raw.items():
        if name not in _OF_SOCKET:
            pieces += [b",", msgspec.json.encode(name), b":", value]
    start = len(_BEFORE_ITEMS)
    created = CreateMessage(
        previous_response_id=read.previous_response_id,
        generates=read.generate,
        start=start,
        end=start + len(items),
    )
    return created, b"".join((*pieces, b"}"))


def _items(raw: Raw) -> bytes:
    """Return the items of an input as they are, without what stands around them."""
    text = bytes(raw)
    if text in (b"", b"null"):
        return b""
    if text[:1] == b'"':
        return b'{"role":"user","content":%b}' % text
    if text[:1] != b"[":
        raise InvalidRequest("input: expected a string or an array of items.", "input")
    return text[1:-1].strip(b" \t\r\n")


def is_processed(message: bytes) -> bool:
    """Whether a short message only acknowledges a response."""
    if len(message) > PROCESSED_BYTES_MAX:
        return False
    try:
        return _MESSAGE.decode(message).type == "response.processed"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


PROCESSED_BYTES_MAX = 1024
