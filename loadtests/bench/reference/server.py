"""An HTTP/1.1 server that does the least for a Tornado application: parse, call, write.

No time-outs, no limits, no pipelining: it is what a benchmark's own client needs and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import httptools
from tornado import httputil, web
from tornado.iostream import StreamClosedError


class Front(asyncio.Protocol):
    """A connection of a client."""

    transport: asyncio.Transport

    def __init__(self, application: web.Application) -> None:
        self._application = application
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self.resume_writing()
        self._exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        peer = transport.get_extra_info("peername")
        self.context = SimpleNamespace(
            protocol="http", address_family=2, address=peer, remote_ip=peer[0]
        )

    def connection_lost(self, error: Exception | None) -> None:
        if not self.written.done():
            self.written.set_exception(StreamClosedError())
            self.written.exception()  # perhaps nobody waits for it
        if self._exchange is not None and self._exchange.on_close is not None:
            self._exchange.on_close()

    def pause_writing(self) -> None:
        self.written: asyncio.Future[None] = self._loop.create_future()

    def resume_writing(self) -> None:
        if not hasattr(self, "written"):
            self.pause_writing()
        if not self.written.done():
            self.written.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = httputil.HTTPHeaders()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Validated by the parser: not once more by HTTPHeaders.add.
        key, text = _spelled(name), value.decode("latin-1")
        self._headers._as_list[key] = [text]
        self._headers._combined_cache[key] = text

    def on_headers_complete(self) -> None:
        version, url = f"HTTP/{self._parser.get_http_version()}", self._url.decode("latin-1")
        line = httputil.RequestStartLine(self._parser.get_method().decode(), url, version)
        self._exchange = exchange = Exchange(self)
        exchange.delegate = self._application.start_request(self, exchange)
        exchange.delegate.headers_received(line, self._headers)

    def on_body(self, body: bytes) -> None:
        assert self._exchange is not None
        self._exchange.delegate.data_received(body)

    def on_message_complete(self) -> None:
        assert self._exchange is not None
        self._exchange.delegate.finish()


class Exchange(httputil.HTTPConnection):
    """One request and its answer, as a handler sees its connection."""

    delegate: Any

    def __init__(self, front: Front) -> None:
        self._front = front
        self.context = front.context
        self._is_chunked = False
        self.on_close: Callable[[], None] | None = None

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        self.on_close = callback

    def write_headers(
        self,
        start_line: httputil.RequestStartLine | httputil.ResponseStartLine,
        headers: httputil.HTTPHeaders,
        chunk: bytes | None = None,
    ) -> asyncio.Future[None]:
        assert isinstance(start_line, httputil.ResponseStartLine)
        self._is_chunked = "Content-Length" not in headers._as_list
        lines = [f"HTTP/1.1 {start_line.code} {start_line.reason}"]
        for name, values in headers._as_list.items():
            lines += [f"{name}: {value}" for value in values]
        if self._is_chunked:
            lines.append("Transfer-Encoding: chunked")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        return self._put(head + self._framed(chunk) if chunk else head)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        return self._put(self._framed(chunk)) if chunk else self._front.written

    def finish(self) -> None:
        self.on_close = None
        if self._is_chunked:
            self._put(b"0\r\n\r\n")

    def _framed(self, chunk: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._is_chunked else chunk

    def _put(self, data: bytes) -> asyncio.Future[None]:
        self._front.transport.write(data)
        return self._front.written


@cache
def _spelled(name: bytes) -> str:
    """The name as Tornado spells it; a benchmark's client sends few of them."""
    return "-".join(map(str.capitalize, name.decode().split("-")))
