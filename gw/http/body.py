"""The body of a request, or of a WebSocket's message, while it is received and served. No I/O.

A body takes at most an eighth more memory than its size, however it is split. Large bodies share a
bound per process; a body above it is refused, so that none waits for another. Bytes that a refused
client still sends are counted and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import SEEK_END, BytesIO

from channels.body_budget import BodyBudget
from gw import errors

# A body that takes longer is given up.
BODY_SECONDS = 120.0
# A smaller body is not counted in the budget: the number of connections bounds these.
SMALL_BODY_BYTES = 64 * 1024


class InboundBody:
    """The body of one request while it is received, at most `limit_bytes` long."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_declared_bytes",
        "_limit_bytes",
        "_owner",
        "_received_bytes",
        "_room_bytes",
        "_taken_bytes",
    )

    def __init__(
        self, headers: Mapping[str, str], limit_bytes: int, budget: BodyBudget, owner: str = ""
    ) -> None:
        """`owner` has the body. Raises GatewayError when the headers alone require a refusal."""
        declared = declared_bytes(headers, limit_bytes)
        self._budget = budget
        self._owner = owner
        self._buffer: BytesIO | None = None
        self._room_bytes = 0  # of the buffer
        self._limit_bytes = limit_bytes
        self._received_bytes = 0
        self._taken_bytes = 0  # of the budget
        self._declared_bytes = declared

    def expect(self, more_bytes: int) -> None:
        """So many bytes will follow those received: the buffer is made for them."""
        self._declared_bytes = self._received_bytes + more_bytes

    def feed(self, chunk: bytes) -> None:
        """Append a piece. Raises GatewayError above the bound of the body or of the process."""
        received = self._received_bytes + len(chunk)
        if received > self._limit_bytes:
            raise errors.too_large(self._limit_bytes)
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = BytesIO(chunk)  # without a copy, until more is written
            self._room_bytes = buffer.seek(0, SEEK_END)
        else:
            if received > self._room_bytes:
                self._make_room(buffer, received)
            buffer.write(chunk)
        self._received_bytes = received

    def take_body(self) -> bytes:
        """Return the whole body and stop keeping it; it still counts in the budget."""
        buffer, self._buffer = self._buffer, None
        return b"" if buffer is None else buffer.getvalue()  # the buffer itself, not a copy

    def peek(self) -> bytes:
        """Return a copy of what was received so far."""
        return b"" if self._buffer is None else self._buffer.getvalue()

    def reserve(self, size_bytes: int) -> None:
        """Count a whole body as this many bytes, because it is replaced by another one.

        Raises GatewayError if there is no room.
        """
        size_bytes = size_bytes if size_bytes > SMALL_BODY_BYTES else 0
        if size_bytes > self._taken_bytes:
            self._take(size_bytes)
        else:
            self._budget.give_back(self._taken_bytes - size_bytes, self._owner)
        self._taken_bytes = size_bytes

    def forget(self) -> None:
        """Return the body's bytes to the budget. A second call does nothing."""
        self._buffer = None
        if self._taken_bytes:
            self._budget.give_back(self._taken_bytes, self._owner)
            self._taken_bytes = 0

    def _take(self, size_bytes: int) -> None:
        held = self._taken_bytes
        if not self._budget.take(size_bytes - held, self._owner, held_bytes=held):
            raise errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, _NO_ROOM)

    def _make_room(self, buffer: BytesIO, received: int) -> None:
        """Double the buffer up to the declared size; without one it grows by an eighth."""
        room = max(received, min(self._declared_bytes, 2 * received))
        if room > SMALL_BODY_BYTES:
            self._take(room)
            self._taken_bytes = room
        self._room_bytes = room
        if room > received:
            at = buffer.tell()
            buffer.seek(room - 1)
            buffer.write(b"\0")
            buffer.seek(at)


def declared_bytes(headers: Mapping[str, str], limit_bytes: int) -> int:
    """Return the declared length of the body, or 0. The headers have passed `request.py`.

    Raises GatewayError when the headers alone require a refusal.
    """
    encoding = headers.get("Content-Encoding")
    if encoding is not None and encoding.strip().lower() not in ("", "identity"):
        # Decompression would turn a few bytes on the wire into many in memory, and the bytes
        # counted by the pre-charge would differ from those the client sent.
        raise errors.GatewayError(
            errors.INVALID_REQUEST,
            "Compressed request bodies are not accepted: send the body without Content-Encoding.",
        )
    declared = int(headers.get("Content-Length", "0"))
    if declared > limit_bytes:
        raise errors.too_large(limit_bytes)
    return declared


_NO_ROOM = "The gateway holds as many large request bodies as it can. Try again shortly."


# A refused client continues to send: most libraries read the response only after the whole body is
# sent, and closing earlier turns the response into a broken pipe. So the rest is read and dropped,
# up to this multiple of the accepted size and this long (nginx, lingering_close: 30 s).
DROP_FACTOR = 2
DROP_SECONDS = 30.0
# A smaller rest is read, and the connection is kept.
KEEP_ALIVE_BYTES = 64 * 1024


class UnreadBody:
    """The rest of a refused request's body, which is counted and dropped up to a bound."""

    __slots__ = (
        "_bound_bytes",
        "_dropped_bytes",
        "expects_continue",
        "is_expected",
        "keeps_connection",
    )

    def __init__(self, headers: Mapping[str, str], limit_bytes: int) -> None:
        self._bound_bytes = DROP_FACTOR * limit_bytes
        self._dropped_bytes = 0
        declared = int(headers.get("Content-Length", "0"))
        is_open_ended = "Transfer-Encoding" in headers
        # A client that waits for `100 Continue` sends nothing after a final response, and must not
        # receive the 100 after it.
        self.expects_continue = headers.get("Expect", "").strip().lower() == "100-continue"
        self.is_expected = is_open_ended or declared > 0
        self.keeps_connection = not (
            self.expects_continue or is_open_ended or declared > KEEP_ALIVE_BYTES
        )

    def drop(self, chunk: bytes) -> bool:
        """Count a piece; False above the bound."""
        self._dropped_bytes += len(chunk)
        return self._dropped_bytes <= self._bound_bytes
