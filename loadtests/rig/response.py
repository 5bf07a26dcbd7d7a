"""A response as its client sees it, and what reads responses off the bytes of a connection."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any


class Disconnected(ConnectionError):
    """The server has closed the connection before the head of a response was there."""


class Response:
    """What has come by now: status 0 without a head, names of headers in lower case.

    `is_broken` when it has ended in the middle.
    """

    def __init__(
        self,
        status: int = 0,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        is_broken: bool = False,
    ) -> None:
        self.status, self.headers = status, headers or {}
        self.is_broken = is_broken
        self.pieces = [body] if body else []  # of the body, as they came

    def __repr__(self) -> str:
        broken = " broken" if self.is_broken else ""
        return f"<Response {self.status} {dict(self.headers)} {self.body!r}{broken}>"

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of the first shape, which has exactly these members."""
        whole = self.json
        assert list(whole) == ["error"], whole
        assert list(whole["error"]) == ["message", "type", "code"], whole
        error: dict[str, Any] = whole["error"]
        return error

    @property
    def code(self) -> str:
        """The code of an error, of whatever shape."""
        return str(self.json["error"]["code"])

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Status, type and code of an error."""
        return self.status, self.error["type"], self.error["code"]

    @property
    def trace(self) -> str:
        """The id of the call, empty where there is none."""
        return self.headers.get("x-gateway-trace", "")

    @property
    def events(self) -> list[bytes]:
        """The data of each event of a stream."""
        lines = self.body.replace(b"\r\n", b"\n").split(b"\n")
        return [line[6:] for line in lines if line.startswith(b"data: ")]

    @property
    def text(self) -> str:
        """The text of a stream's first choice."""
        pieces = []
        for event in self.events:
            if event != b"[DONE]":
                for choice in json.loads(event)["choices"]:
                    pieces.append(choice["delta"].get("content") or "")
        return "".join(pieces)

    @property
    def is_complete(self) -> bool:
        """Whether it is a stream with its terminator."""
        return not self.is_broken and self.body.endswith(b"data: [DONE]\n\n")


class ResponseReader:
    """The responses of one connection, whoever brings its bytes.

    `read` yields whenever it needs more of them: its user calls `feed`, with nothing at the end of
    the connection, and goes on.
    """

    def __init__(self) -> None:
        self.pending = b""
        self.has_ended = False

    def feed(self, data: bytes) -> None:
        """Bytes that have come; none at the end of the connection."""
        self.pending += data
        self.has_ended = not data

    def take(self, size: int | None = None) -> bytes:
        """Take so many bytes of what has come, or all of it."""
        if size is None:
            size = len(self.pending)
        taken, self.pending = self.pending[:size], self.pending[size:]
        return taken

    def read(self, response: Response, *, has_body: bool = True) -> Iterator[None]:
        """The next final response, as far as it comes. Raises Disconnected."""
        while True:
            head = yield from self._until(b"\r\n\r\n")
            if not head:
                raise Disconnected(f"closed without a response: {self.pending!r}")
            first, *lines = head[:-4].decode("latin-1").split("\r\n")
            status = int(first.split(" ", 2)[1])
            if not 100 <= status < 200 or status == 101:
                break
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        # The gateway sends no header twice.
        assert len(headers) == len(lines) or "x-gateway-trace" not in headers, head
        response.status, response.headers = status, headers
        if not has_body or status in (101, 204, 304):
            return
        if headers.get("transfer-encoding", "").lower() == "chunked":
            is_whole = yield from self._chunks(response)
        elif "content-length" in headers:
            is_whole = yield from self._body(int(headers["content-length"]), response)
        else:
            is_whole = yield from self._body_to_the_end(response)
        response.is_broken = not is_whole

    def read_head(self, head: bytearray) -> Iterator[None]:
        """The next head as it stands, into `head`: of a response that is not final."""
        head += yield from self._until(b"\r\n\r\n")

    def _chunks(self, response: Response) -> Generator[None, None, bool]:
        while size := (yield from self._until(b"\r\n")):
            if not int(size, 16):
                return bool((yield from self._until(b"\r\n")))
            if not (yield from self._body(int(size, 16), response)):
                return False
            yield from self._until(b"\r\n")
        return False

    def _body(self, left: int, response: Response) -> Generator[None, None, bool]:
        while left:
            if not self.pending:
                if self.has_ended:
                    return False
                yield
            data = self.take(left)
            left -= len(data)
            response.pieces += filter(None, [data])
        return True

    def _body_to_the_end(self, response: Response) -> Generator[None, None, bool]:
        while self.pending or not self.has_ended:
            response.pieces += filter(None, [self.take()])
            if not self.has_ended:
                yield
        return True

    def _until(self, mark: bytes) -> Generator[None, None, bytes]:
        """Up to and with `mark`; nothing when the connection ends before."""
        while mark not in self.pending:
            if self.has_ended:
                return b""
            yield
        found, self.pending = self.pending.split(mark, 1)
        return found + mark


def request_bytes(
    method: str, target: str, headers: Mapping[str, str], body: bytes | None, *, host: str
) -> bytes:
    """A request; host and length are written unless they are given."""
    given = {name.lower() for name in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in given:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not given & {"content-length", "transfer-encoding"} and (body or method != "GET"):
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
