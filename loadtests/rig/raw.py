"""A connection on which a test sends any bytes it likes, and what comes back on it.

No library mends the request or the answer. For well-formed calls there is `client.py`.
"""

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from loadtests.rig.waiting import PATIENCE_SECONDS


@dataclass(frozen=True)
class RawAnswer:
    """One answer as it came; header names in lower case, each of them once."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """One connection to a server; every wait is bounded."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._socket = socket.create_connection(
            (parts.hostname, parts.port), timeout=PATIENCE_SECONDS
        )
        self._pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, data: bytes) -> bool:
        """Send everything; False when the server closed before it was out."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            return False
        return True

    def end_sending(self) -> None:
        """Say that nothing more will come, and go on reading."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the server was quicker

    def answer(self, *, has_body: bool = True) -> RawAnswer | None:
        """The next final answer; None when the server closed without one."""
        head = self._until(b"\r\n\r\n")
        if not head:
            return None
        status_line, *lines = head[:-4].decode("latin1").split("\r\n")
        status = int(status_line.split(" ")[1])
        if status == 100:
            return self.answer(has_body=has_body)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, head
            headers[name.lower()] = value
        return RawAnswer(status, headers, self._body(headers) if has_body else b"")

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while self._more():
            pass
        rest, self._pending = self._pending, b""
        return rest

    def line(self) -> bytes:
        """The next head as it stands: for an answer that is not final."""
        return self._until(b"\r\n\r\n")

    def reset(self) -> None:
        """Leave without a word: the server gets a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            whole = b""
            while size := int(self._until(b"\r\n"), 16):
                whole += self._exactly(size + 2)[:-2]
            self._exactly(2)
            return whole
        return self._exactly(int(headers["content-length"]))

    def _until(self, mark: bytes) -> bytes:
        """Up to and with `mark`; nothing when the connection ended before the first byte."""
        while mark not in self._pending:
            if not self._more():
                assert not self._pending, f"an answer breaks off: {self._pending!r}"
                return b""
        found, self._pending = self._pending.split(mark, 1)
        return found + mark

    def _exactly(self, size: int) -> bytes:
        while len(self._pending) < size:
            assert self._more(), f"a body breaks off: {self._pending!r}"
        found, self._pending = self._pending[:size], self._pending[size:]
        return found

    def _more(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            return False
        self._pending += data
        return bool(data)
