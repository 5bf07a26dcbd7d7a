"""An upstream that answers with exactly the bytes it was given, in exactly these pieces.

For what the simulator does not say: comments, odd line ends, events cut anywhere. A thread with a
plain socket; each connection is answered once and closed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.waiting import PATIENCE_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class ScriptedUpstream:
    """Sends `pieces` to whoever asks, each in a packet of its own."""

    def __init__(self, port: int = 0) -> None:
        self.pieces: Sequence[bytes] = ()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_SECONDS)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return  # closed
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _read_request(peer)
                for piece in (HEAD, *self.pieces):
                    peer.sendall(piece)


def _read_request(peer: socket.socket) -> None:
    with peer.makefile("rb") as request:
        length = 0
        while (line := request.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request.read(length)


@contextmanager
def scripted_upstream() -> Iterator[ScriptedUpstream]:
    """A running one."""
    upstream = ScriptedUpstream()
    try:
        yield upstream
    finally:
        upstream.close()
