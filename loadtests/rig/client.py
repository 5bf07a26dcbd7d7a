"""A client of the gateway that sees exact bytes, reads as slowly as it likes and leaves when it
likes.

Nothing is read ahead or tried again, and every call is a connection of its own unless it is given
one, so that what a test sees is what the gateway did to this one call. The official libraries have
their own tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self
from urllib.parse import urlsplit

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.connection import Connection
from loadtests.rig.response import Disconnected, Response, request_bytes

CHAT = "/v1/chat/completions"
HELLO = {"role": "user", "content": "Hello"}

Body = bytes | Mapping[str, Any] | None
# Each is shown every whole response, with the method and the target of its request.
JUDGES: list[Callable[[str, str, Response], None]] = []


class Call:
    """One request that has been sent; its response is read when the test asks for it."""

    def __init__(self, connection: Connection, request: bytes, *, is_kept: bool) -> None:
        self._connection, self._is_kept = connection, is_kept
        self._method, self._target, _ = request.split(b" ", 2)
        self._response = Response()
        connection.send(request)
        self._reading = connection.reading(self._response, has_body=self._method != b"HEAD")
        self._read = 0  # pieces of the body

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def begun(self) -> Response:
        """The response, once its head is there."""
        while not self._response.status and next(self._reading, self) is not self:
            pass
        return self._response

    def read_some(self, size: int = 65536) -> bytes:
        """What there is of the body, at least one byte, or what `size` bytes have of it.

        Empty at its end.
        """
        self._connection.receive_bytes = size
        pieces = self._response.pieces
        while len(pieces) == self._read and next(self._reading, self) is not self:
            pass
        found, self._read = b"".join(pieces[self._read :]), len(pieces)
        return found

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to the piece that has `mark` in it."""
        seen = b""
        while mark not in seen:
            piece = self.read_some()
            assert piece, f"the response ended without {mark!r}: {seen!r}"
            seen += piece
        return seen

    def response(self) -> Response:
        """The whole response."""
        response = self._response
        try:
            for _ in self._reading:
                pass
        except BaseException:
            self.leave()
            raise
        is_closed = response.is_broken or response.headers.get("connection", "").lower() == "close"
        if is_closed or not self._is_kept:
            self.leave()
        # Of the gateway's own: either when to return, or that it is of no use.
        if response.status == 503 and response.trace:
            is_useless = response.headers.get("x-should-retry") == "false"
            assert ("retry-after" in response.headers) != is_useless
        for judge in JUDGES:
            judge(self._method.decode(), self._target.decode(), response)
        return response

    def leave(self) -> None:
        """Close the connection, whatever it was doing."""
        self._connection.close()


@dataclass(frozen=True)
class Client:
    """Calls with one key, or with none; over one connection where it is given one."""

    url: str
    key: str | None
    connection: Connection | None = None

    def kept(self) -> Client:
        """The same, over a connection of its own that it keeps, as most libraries do."""
        return replace(self, connection=Connection(self.url))

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
        connection = self.connection or Connection(
            self.url, receive_buffer_bytes=receive_buffer_bytes
        )
        request = request_bytes(
            method, path, {**given, **(headers or {})}, body, host=connection.host
        )
        return Call(connection, request, is_kept=self.connection is not None)

    def send(
        self, method: str, path: str, body: Body = None, *, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request and read its whole response."""
        return self.begin(method, path, body, headers=headers).response()

    def get(self, path: str, **headers: str) -> Response:
        return self.send("GET", path, headers=headers)

    def chat(
        self, body: bytes | None = None, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> Response:
        """One chat call; `members` replace those of the ordinary body."""
        return self.begin_chat(body, headers=headers, **members).response()

    def begin_chat(
        self,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        receive_buffer_bytes: int | None = None,
        **members: Any,
    ) -> Call:
        """Send one chat call; its response waits to be read."""
        return self.begin(
            "POST",
            CHAT,
            body if body is not None else chat_body(**members),
            headers=headers,
            receive_buffer_bytes=receive_buffer_bytes,
        )

    def outcome(self, **members: Any) -> str:
        """What became of one chat call, in a word."""
        try:
            return outcome(self.begin_chat(**members), is_stream=bool(members.get("stream")))
        except ConnectionRefusedError:
            return "refused"
        except Disconnected:
            return "closed"

    def close(self) -> None:
        """Leave the connection that it keeps."""
        if self.connection is not None:
            self.connection.close()

    def remaining_nano_usd(self) -> int:
        """What the balance endpoint says is left, exactly."""
        response = self.get("/v1/key/balance")
        assert response.status == 200, response
        return nano_usd(response.json["remaining_usd"])


def fetch(
    url: str, method: str = "GET", body: Body = None, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Whatever an address has, without a key."""
    parts = urlsplit(url)
    client, target = Client(f"{parts.scheme}://{parts.netloc}", None), parts.path or "/"
    target += f"?{parts.query}" if parts.query else ""
    return client.send(method, target, body, headers=headers)


def outcome(call: Call, *, is_stream: bool) -> str:
    """What becomes of a call whose response has begun."""
    response = call.response()
    if response.is_broken:
        return f"cut {response.status}"
    if response.status == 503:
        is_closing = response.headers.get("connection") == "close"
        return "asked to come back" if is_closing and response.headers["retry-after"] else "503"
    is_whole = response.is_complete or not is_stream
    return str(response.status) if is_whole else f"cut {response.status}"


def chat_body(**members: Any) -> dict[str, Any]:
    """An ordinary request with `members` put in or replaced."""
    return {"model": "sim-model", "messages": [HELLO], **members}


def nano_usd(text: str) -> int:
    """A decimal string of USD as whole nano-USD; nothing is rounded."""
    exact = Decimal(text) * NANO_PER_USD
    assert exact == int(exact), text
    return int(exact)
