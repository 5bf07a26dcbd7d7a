"""A client's connection, on which it sends any bytes it likes, and what comes back on it.

No library mends the request or the response, and nothing is tried again. `client.py` makes the
calls of a gateway's clients over it.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

from loadtests.rig.response import Response, ResponseReader
from loadtests.rig.waiting import PATIENCE_SECONDS


class Connection:
    """A connection to a server, made when something is sent; every wait is bounded.

    One that was closed is made anew by the next request.
    """

    def __init__(
        self,
        url: str,
        *,
        trust: ssl.SSLContext | None = None,  # of https; none: any certificate is taken
        server_name: str | None = None,  # that it must have
        receive_buffer_bytes: int | None = None,
        timeout_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        is_tls = parts.scheme == "https"
        self.host = parts.netloc
        self._server_name = server_name or parts.hostname
        self._address = (parts.hostname, parts.port or (443 if is_tls else 80))
        self._trust = (trust or ssl._create_unverified_context()) if is_tls else None
        self._receive_buffer_bytes = receive_buffer_bytes
        self._timeout_seconds = timeout_seconds
        self.receive_bytes = 65536  # at a time
        self._socket: socket.socket | None = None
        self._reader = ResponseReader()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def opened(self) -> socket.socket:
        """The connection, made if there is none. Raises OSError."""
        if self._socket is None:
            self._reader = ResponseReader()
            self._socket = socket.socket()
            try:
                self._connect(self._socket)
            except BaseException:
                self.close()
                raise
        return self._socket

    def _connect(self, sock: socket.socket) -> None:
        if self._receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        sock.settimeout(self._timeout_seconds)
        sock.connect(self._address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._trust is not None:
            self._socket = self._trust.wrap_socket(sock, server_hostname=self._server_name)

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed it while nothing was under way."""
        return self._socket is None or bool(select.select([self._socket], [], [], 0)[0])

    def wait_at_most(self, seconds: float) -> None:
        """From now on a response is waited for so long. It raises TimeoutError then."""
        self._timeout_seconds = seconds
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def send(self, data: bytes) -> bool:
        """Send everything; False when the server closed before it was out. Raises OSError."""
        opened = self.opened  # who was not connected has sent nothing that a response could be for
        try:
            opened.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def end_sending(self) -> None:
        """Say that nothing more will come, and go on reading."""
        try:
            self.opened.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the server was quicker

    def response(self, *, has_body: bool = True) -> Response:
        """The next final response. Raises Disconnected."""
        response = Response()
        for _ in self.reading(response, has_body=has_body):
            pass
        return response

    def reading(self, response: Response, *, has_body: bool = True) -> Iterator[None]:
        """Read the next final response; yields before each wait for more. Raises Disconnected."""
        for _ in self._reader.read(response, has_body=has_body):
            yield
            self._receive()

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while self._receive():
            pass
        return self._reader.take()

    def head(self) -> bytes:
        """The next head as it stands: of a response that is not final."""
        head = bytearray()
        for _ in self._reader.read_head(head):
            self._receive()
        return bytes(head)

    def reset(self) -> None:
        """Leave without a word: the server gets a reset."""
        self.opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Leave."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _receive(self) -> bool:
        try:
            data = self.opened.recv(self.receive_bytes)
        except ConnectionError:
            data = b""
        self._reader.feed(data)
        return bool(data)
