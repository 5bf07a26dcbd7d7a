"""An upstream that answers the same on three ports: HTTP/1.1, the same without TLS, and HTTP/2.

`/plain` is a whole answer; `/stream/EVENTS/SECONDS/PAUSE` is a head, and after the pause that many
events, one every so many seconds. What is due in one turn of the loop leaves in one write.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import uvloop
from h2.config import H2Configuration  # type: ignore[import-not-found]
from h2.connection import H2Connection  # type: ignore[import-not-found]
from h2.events import (  # type: ignore[import-not-found]
    DataReceived,
    RequestReceived,
    StreamEnded,
)
from h2.settings import SettingCodes, Settings  # type: ignore[import-not-found]
from httptools import HttpRequestParser

ANSWER = b'{"id":"chatcmpl-1","choices":[{"message":{"content":"%s"}}]}' % (b"word " * 100)
EVENT = b'data: {"id":"chatcmpl-1","choices":[{"delta":{"content":"word "}}],"pad":"%s"}\n\n' % (
    b"x" * 120
)
# As large providers send them: constant ones, and some that differ from answer to answer.
HEADERS = [
    (b"server", b"upstream"),
    (b"openai-organization", b"org-1234567890"),
    (b"openai-processing-ms", b"412"),
    (b"openai-version", b"2020-10-01"),
    (b"x-ratelimit-limit-requests", b"10000"),
    (b"x-ratelimit-remaining-requests", b"9999"),
    (b"strict-transport-security", b"max-age=31536000; includeSubDomains; preload"),
    (b"x-content-type-options", b"nosniff"),
]


class Server(asyncio.Protocol):
    """A connection: what both protocols have in common."""

    def __init__(self) -> None:
        self.requests = 0
        self.transport: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    def answer(self, stream: int, path: bytes) -> None:
        """Answer one request."""
        self.requests += 1
        number = b"%08x" % (self.requests * 2_654_435_761 % 2**32)
        headers = [*HEADERS, (b"x-request-id", b"req_" + number), (b"cf-ray", number + b"-FRA")]
        if path == b"/plain":
            kind = (b"content-type", b"application/json")
            self.head(stream, [*headers, kind, (b"content-length", b"%d" % len(ANSWER))])
            self.piece(stream, ANSWER, ends=True)
            return
        self.head(stream, [*headers, (b"content-type", b"text/event-stream")])
        events, seconds, pause = path.split(b"/")[2:]
        task = asyncio.ensure_future(self._send(stream, int(events), float(seconds), float(pause)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, stream: int, events: int, seconds: float, pause: float) -> None:
        await asyncio.sleep(pause + seconds * (stream * 0.618 + id(self) % 997 / 997) % seconds)
        for left in reversed(range(events)):
            self.piece(stream, EVENT, ends=not left)
            await asyncio.sleep(seconds)

    def head(self, stream: int, headers: list[tuple[bytes, bytes]]) -> None:
        raise NotImplementedError

    def piece(self, stream: int, data: bytes, *, ends: bool) -> None:
        raise NotImplementedError


class Http1Server(Server):
    """HTTP/1.1: one request after the other."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._parser = HttpRequestParser(self)
        self._path, self._head = b"", b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        self.answer(0, self._path)

    def head(self, stream: int, headers: list[tuple[bytes, bytes]]) -> None:
        lines = [b"%s: %s" % pair for pair in headers]
        if self._path != b"/plain":
            lines.append(b"transfer-encoding: chunked")
        self._head = b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])
        if self._path != b"/plain":
            self.transport.write(self._head)

    def piece(self, stream: int, data: bytes, *, ends: bool) -> None:
        if self._path == b"/plain":
            self.transport.write(self._head + data)
        else:
            self.transport.write(b"%x\r\n%s\r\n%s" % (len(data), data, b"0\r\n\r\n" * ends))


class Http2Server(Server):
    """HTTP/2: many at once."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._http2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._http2.local_settings = Settings(
            client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: 10_000}
        )
        self._http2.initiate_connection()
        self._http2.increment_flow_control_window(2**24)
        self._paths: dict[int, bytes] = {}
        self._is_write_due = False
        self._write_soon()

    def data_received(self, data: bytes) -> None:
        for event in self._http2.receive_data(data):
            if isinstance(event, RequestReceived):
                self._paths[event.stream_id] = dict(event.headers)[b":path"]
            elif isinstance(event, DataReceived):
                length = event.flow_controlled_length
                self._http2.acknowledge_received_data(length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self.answer(event.stream_id, self._paths.pop(event.stream_id))
        self._write_soon()

    def head(self, stream: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._http2.send_headers(stream, [(b":status", b"200"), *headers])

    def piece(self, stream: int, data: bytes, *, ends: bool) -> None:
        self._http2.send_data(stream, data, end_stream=ends)
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_write_due = False
        self.transport.write(self._http2.data_to_send())


KINDS: dict[str, type[Server]] = {
    "http/1.1": Http1Server,
    "plain": Http1Server,
    "h2": Http2Server,
}


def serve(pem: str, ports: Any) -> None:
    """Listen until the process is ended; the ports, by protocol, go into a pipe."""

    async def listen() -> None:
        loop, found = asyncio.get_running_loop(), {}
        for name, kind in KINDS.items():
            tls = None
            if name != "plain":
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                tls.load_cert_chain(pem)
                tls.set_alpn_protocols([name])
            server = await loop.create_server(kind, "127.0.0.1", 0, ssl=tls, backlog=2048)
            found[name] = server.sockets[0].getsockname()[1]
        ports.send(found)
        await asyncio.Event().wait()

    uvloop.run(listen())
