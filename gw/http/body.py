"""Takes in a request body within a bound, and lets a refused one run out.

Sans I/O: the request (`request.py`) feeds what arrives. A body takes an eighth more than its size
in memory at most, in whatever pieces it came; all large ones of a process have a bound together,
beyond which one is refused, so that none ever waits for another. What a refused client still sends
is counted and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO

from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, REQUEST_TOO_LARGE, GatewayError

# A client that has been refused goes on sending: most libraries read the response only when all of
# the body is out, and closing under them turns the response into a broken pipe. So the rest is read
# and dropped, this many times the accepted size and this long (nginx, lingering_close: 30 s).
LINGER_FACTOR = 2
LINGER_SECONDS = 30.0
# A rest this small is not worth a new connection: it is read, and the connection is kept.
KEEP_ALIVE_BYTES = 64 * 1024
# What a body may have that is not counted with the others: the number of connections bounds these.
SMALL_BODY_BYTES = 64 * 1024
# Of all others together, unless the configuration sets another.
BODIES_BYTES = 512 * 1024 * 1024


class BodyBudget:
    """The large request bodies that a process holds, from their first bytes to their responses."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def __repr__(self) -> str:
        return f"<BodyBudget {self.held_bytes} of {self.limit_bytes} bytes>"

    def take(self, size_bytes: int) -> None:
        """Raises GatewayError when there is no room for so much more."""
        if self.held_bytes + size_bytes > self.limit_bytes:
            raise GatewayError(NO_CHANNEL_AVAILABLE, _NO_ROOM)
        self.held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """So much is no longer held."""
        self.held_bytes -= size_bytes


class InboundBody:
    """The body of one request, as it comes in, at most `limit_bytes` long."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_declared_bytes",
        "_first",
        "_limit_bytes",
        "_received_bytes",
        "_room_bytes",
        "_taken_bytes",
    )

    def __init__(self, headers: Mapping[str, str], limit_bytes: int, budget: BodyBudget) -> None:
        """Raises GatewayError at once when the headers alone show that it is refused."""
        self._budget = budget
        self._first = b""  # all of it, as mostly
        self._buffer: BytesIO | None = None  # all of it, once there is more than one piece
        self._room_bytes = 0  # of the buffer
        self._limit_bytes = limit_bytes
        self._received_bytes = 0
        self._taken_bytes = 0  # of the budget
        encoding = headers.get("Content-Encoding")
        if encoding is not None and encoding.strip().lower() not in ("", "identity"):
            # Unpacking would let a few bytes on the wire become many in memory, and the byte count
            # of the pre-charge would no longer be what the client sent.
            raise GatewayError(
                INVALID_REQUEST,
                "Compressed request bodies are not accepted: send the body without"
                " Content-Encoding.",
            )
        declared = declared_bytes(headers)
        if declared is not None and declared > limit_bytes:
            raise too_large(limit_bytes)
        self._declared_bytes = declared or 0

    def feed(self, chunk: bytes) -> None:
        """Take one piece. Raises GatewayError when it is one too many, here or in the process."""
        received = self._received_bytes + len(chunk)
        if received > self._limit_bytes:
            raise too_large(self._limit_bytes)
        if not self._received_bytes:
            self._first = chunk
        else:
            buffer = self._buffer
            if buffer is None or received > self._room_bytes:
                buffer = self._make_room(received)
            buffer.write(chunk)
        self._received_bytes = received

    def take(self) -> bytes:
        """The whole body; it is not kept here any longer, but still counted."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            return buffer.getvalue()  # which is the buffer itself, not a copy
        first, self._first = self._first, b""
        return first

    def forget(self) -> None:
        """Release the body's bytes from the budget. A second call does nothing."""
        self._buffer = None
        self._first = b""
        if self._taken_bytes:
            self._budget.give_back(self._taken_bytes)
            self._taken_bytes = 0

    def _make_room(self, received: int) -> BytesIO:
        """Where the size is known, double the room up to that; else it grows by an eighth."""
        room = max(received, min(self._declared_bytes, 2 * received))
        if room > SMALL_BODY_BYTES:
            self._budget.take(room - self._taken_bytes)
            self._taken_bytes = room
        self._room_bytes = room
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = BytesIO(self._first)
            buffer.seek(len(self._first))
            self._first = b""
        if room > received:
            at = buffer.tell()
            buffer.seek(room - 1)
            buffer.write(b"\0")
            buffer.seek(at)
        return buffer


class UnreadBody:
    """What a refused client still sends: counted, dropped, and not for ever."""

    __slots__ = (
        "_bound_bytes",
        "_dropped_bytes",
        "is_expected",
        "is_held_back",
        "keeps_connection",
    )

    def __init__(self, headers: Mapping[str, str], limit_bytes: int) -> None:
        self._bound_bytes = LINGER_FACTOR * limit_bytes
        self._dropped_bytes = 0
        declared = declared_bytes(headers) or 0
        is_open_ended = "Transfer-Encoding" in headers
        # A client that waits for "100 Continue" sends nothing once it has a final response, and
        # must not get the 100 after it.
        self.is_held_back = headers.get("Expect", "").strip().lower() == "100-continue"
        self.is_expected = is_open_ended or declared > 0
        self.keeps_connection = not (
            self.is_held_back or is_open_ended or declared > KEEP_ALIVE_BYTES
        )

    def drop(self, chunk: bytes) -> bool:
        """Count a piece; False when there has been enough of it."""
        self._dropped_bytes += len(chunk)
        return self._dropped_bytes <= self._bound_bytes


def declared_bytes(headers: Mapping[str, str]) -> int | None:
    """The declared length of the body. The headers have passed `request.py`."""
    value = headers.get("Content-Length")
    return None if value is None else int(value)


def too_large(limit_bytes: int) -> GatewayError:
    """The body exceeds the configured bound (contract §5)."""
    limit_mb = limit_bytes / (1024 * 1024)
    return GatewayError(
        REQUEST_TOO_LARGE, f"The request body is larger than the {limit_mb:g} MB accepted here."
    )


_NO_ROOM = "The gateway holds as many large request bodies as it can. Try again shortly."
