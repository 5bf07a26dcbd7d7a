"""Writes requests, those with a large body piece by piece, and knows what of them was received."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

try:
    import fcntl
    import termios
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]


def has_unacknowledged(transport: asyncio.BaseTransport) -> bool:
    """Whether written data is unacknowledged; False if the system cannot report it.

    TCP acknowledgements show what the peer's system has received; together with the end of its
    stream, what it had received when it closed. Only Linux and similar systems report this.
    """
    if fcntl is None:
        return False
    sock = transport.get_extra_info("socket")
    try:
        count = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    except OSError:
        return False
    return any(count)


# A longer body than this is written in pieces of this size, at most one in a turn of the loop and
# only while the transport has nothing buffered: TLS would encrypt the whole body at once, and hold
# it twice while the upstream reads slowly.
PIECE_BYTES = 256 * 1024


class BodyPieces:
    """A long body that is not joined: views of a client's body, and what is written between."""

    __slots__ = ("_bytes", "pieces")

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.pieces = [piece for piece in pieces if piece]
        self._bytes = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._bytes

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


class RequestWriter:
    """Writes requests with a large body to a transport, piece by piece.

    The transport's protocol passes on `pause_writing` and `resume_writing`, and sets `is_large` for
    each request: with TLS part of a large body may be unwritten without being reported.
    """

    __slots__ = ("_is_scheduled", "_rest", "_transport", "is_large", "is_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # Of a body, not passed to the transport yet; the next piece is the last.
        self._rest: list[bytes | memoryview] = []
        self.is_paused = False  # the transport has data that the system has not
        self._is_scheduled = False  # the next piece is written in the next turn
        self.is_large = False

    @property
    def has_unsent(self) -> bool:
        """Whether part of a request was not passed to the system."""
        return self.is_paused or bool(self._rest)

    @property
    def may_be_unread(self) -> bool:
        """Whether part of a request, ended early by its response, may never be read."""
        return self.has_unsent or (self.is_large and has_unacknowledged(self._transport))

    def write(self, head: bytes, body: bytes | BodyPieces) -> None:
        """Write a request; the one before it was written."""
        pieces = (body,) if isinstance(body, bytes) else body.pieces
        if len(body) <= PIECE_BYTES:
            self._transport.writelines((head, *pieces))
        else:
            self._transport.write(head)
            self._rest = [memoryview(piece) for piece in reversed(pieces)]
            self._write_piece()
        if self._transport.is_closing():  # nothing was written
            self.is_paused = True

    def end(self) -> None:
        """Write no more: the connection is closed."""
        self._rest = []

    def pause(self) -> None:
        """Wait: the transport has something buffered."""
        self.is_paused = True

    def resume(self) -> None:
        """Continue: the transport has nothing buffered."""
        self.is_paused = False
        if self._rest and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self._rest and not self.is_paused:
            self._write_piece()

    def _write_piece(self) -> None:
        if self._transport.is_closing():
            return
        rest, written, room = self._rest.copy(), [], PIECE_BYTES
        while rest and room:
            piece = rest.pop()
            written.append(piece[:room])
            if len(piece) > room:
                rest.append(piece[room:])
            room -= len(written[-1])
        self._transport.writelines(written)
        if not self._transport.is_closing():  # else it was not written
            self._rest = rest
            if not self.is_paused:
                self.resume()
