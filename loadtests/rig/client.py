"""A client of the gateway that sees exact bytes, reads as slowly as it likes and leaves when it
likes.

Nothing is read ahead or tried again, and every call is a connection of its own, so that what a test
sees is what the gateway did to this one call. The official library has its own tests.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self
from urllib.parse import urlsplit

from loadtests.rig.waiting import PATIENCE_SECONDS

CHAT = "/v1/chat/completions"
HELLO = {"role": "user", "content": "Hello"}
NANO_PER_USD = 10**9

Body = bytes | Mapping[str, Any] | None


@dataclass(frozen=True)
class Reply:
    """One whole answer; header names in lower case, `is_broken` when it ended in the middle."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_broken: bool = False

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
    def refusal(self) -> tuple[int, str, str]:
        """Status, type and code of an error."""
        return self.status, self.error["type"], self.error["code"]

    @property
    def trace(self) -> str:
        return self.headers["x-gateway-trace"]

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
        return not self.is_broken and self.body.endswith(b"data: [DONE]\n\n")


class Call:
    """One request that has been sent; its answer is read when the test asks for it."""

    def __init__(
        self,
        url: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=PATIENCE_SECONDS
        )
        if parts.scheme == "https":  # whose certificate is a matter of its own tests
            trust = ssl._create_unverified_context()
            self._connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=PATIENCE_SECONDS, context=trust
            )
        if receive_buffer_bytes is not None:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.settimeout(PATIENCE_SECONDS)
            sock.connect((parts.hostname, parts.port))
            self._connection.sock = sock
        self._connection.request(method, path, body, dict(headers))
        self._answer: http.client.HTTPResponse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def begun(self) -> http.client.HTTPResponse:
        """The head of the answer, once it is there."""
        if self._answer is None:
            self._answer = self._connection.getresponse()
        return self._answer

    def read_some(self, size: int = 65536) -> bytes:
        """What there is of the body, at least one byte; empty at its end."""
        return self.begun().read1(size)

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to the piece that has `mark` in it."""
        seen = b""
        while mark not in seen:
            piece = self.read_some()
            assert piece, f"the answer ended without {mark!r}: {seen!r}"
            seen += piece
        return seen

    def reply(self) -> Reply:
        """The whole answer."""
        with self:
            response = self.begun()
            try:
                body, is_broken = response.read(), False
            except http.client.IncompleteRead as error:
                body, is_broken = error.partial, True
            headers = {name.lower(): value for name, value in response.getheaders()}
            if response.status == 503:  # either when to return, or that it is of no use
                assert ("retry-after" in headers) != (headers.get("x-should-retry") == "false")
            return Reply(response.status, headers, body, is_broken)

    def leave(self) -> None:
        """Close the connection, whatever it was doing."""
        if self._answer is not None:
            self._answer.close()
        self._connection.close()


@dataclass(frozen=True)
class Client:
    """Calls with one key, or with none."""

    url: str
    key: str | None

    def begin(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        headers: Mapping[str, str] | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Call:
        """Send a request; a body that is not bytes is written as compact JSON."""
        given = {"Authorization": f"Bearer {self.key}"} if self.key is not None else {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        return Call(
            self.url,
            method,
            path,
            {**given, **(headers or {})},
            body,
            receive_buffer_bytes=receive_buffer_bytes,
        )

    def send(
        self, method: str, path: str, body: Body = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request and read its whole answer."""
        return self.begin(method, path, body, headers=headers).reply()

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, headers=headers)

    def chat(
        self, body: bytes | None = None, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> Reply:
        """One chat call; `members` replace those of the ordinary body."""
        return self.begin_chat(body, headers=headers, **members).reply()

    def begin_chat(
        self,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        receive_buffer_bytes: int | None = None,
        **members: Any,
    ) -> Call:
        """Send one chat call; its answer waits to be read."""
        return self.begin(
            "POST",
            CHAT,
            body if body is not None else chat_body(**members),
            headers=headers,
            receive_buffer_bytes=receive_buffer_bytes,
        )

    def remaining_nano_usd(self) -> int:
        """What the balance endpoint says is left, exactly."""
        reply = self.get("/v1/key/balance")
        assert reply.status == 200, reply
        return nano_usd(reply.json["remaining_usd"])


def chat_body(**members: Any) -> dict[str, Any]:
    """An ordinary request with `members` put in or replaced."""
    return {"model": "sim-model", "messages": [HELLO], **members}


def nano_usd(text: str) -> int:
    """A decimal string of USD as whole nano-USD; nothing is rounded."""
    exact = Decimal(text) * NANO_PER_USD
    assert exact == int(exact), text
    return int(exact)
