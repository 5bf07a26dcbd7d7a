"""Upstream HTTP behind one interface: open a request, read its answer as it comes, close at once.

Nothing here knows a protocol or a deadline: the caller's `asyncio.timeout_at` cancels, and a
cancelled request closes its connection. `sse.py` beside it cuts the bytes into events.
"""

from __future__ import annotations

import functools
from asyncio import Future
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Protocol

import aiohttp
from msgspec import Struct
from yarl import URL

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.wire.connection import ConnectionLost, Connector, RequestBody

# Reading stops when twice this much of an answer is waiting to be taken.
READ_BUFFER_BYTES = 64 * 1024
# Of one header line; common servers allow 8 to 32 KiB.
HEADER_BYTES_MAX = 32 * 1024


class UpstreamRequest(Struct, frozen=True):
    """One request, complete: absolute URL, headers in order, body."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Sink(Protocol):
    """Takes the pieces of a body as they come."""

    @property
    def is_over(self) -> bool:
        """Whether it has had enough."""

    def take(self, piece: bytes) -> Future[None] | None:
        """Take a piece. The upstream is not read on before the future is done, if there is one."""


class UpstreamResponse(Protocol):
    """An answer whose head is here. Whoever opened it closes it, on every way out."""

    @property
    def status(self) -> int: ...

    def header(self, name: str) -> str | None:
        """A header's value, by its name in any case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in the pieces it comes in; not taking them stops the upstream.

        Raises UpstreamCut when the connection is lost before the body's end.
        """

    async def pour(self, sink: Sink) -> None:
        """Give a sink what comes, until it has had enough or the body ends. Raises UpstreamCut.

        What the sink raises is raised. `chunks` gives what is left.
        """
        async for piece in self.chunks():
            keeps_up = sink.take(piece)
            if keeps_up is not None:
                await keeps_up
            if sink.is_over:
                return

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises UpstreamCut, or UpstreamMalformed above `limit` bytes."""

    def close(self) -> None:
        """Break the connection at once, unless the body has come to its end."""


class Wire(Protocol):
    """Opens requests."""

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and wait for the head of its answer, without limit of time.

        Raises UpstreamUnreachable, UpstreamCut when the connection is lost within the head, and
        UpstreamMalformed for what is not HTTP. Cancelling it closes the connection.
        """


class AioHttpWire(Wire):
    """Keeps connections alive and shares them between requests to the same place.

    No redirects, no cookies, no proxy from the environment, no decompression. A connection that
    had been kept alive and was closed by the upstream before the request had arrived there is
    replaced by a new one, once. A request that has arrived is never sent twice.
    """

    def __init__(self, *, connect_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._pooled: aiohttp.ClientSession | None = None
        self._unpooled: aiohttp.ClientSession | None = None
        self._address = functools.lru_cache(maxsize=1024)(_address)
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<AioHttpWire {state} connect_seconds={self._connect_seconds}>"

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        """See Wire."""
        assert not self._is_closed
        if self._pooled is None:
            self._pooled = self._session(is_pooling=True)
        try:
            return await self._open(self._pooled, request)
        except ConnectionLost as lost:
            if not lost.was_stale or lost.had_answered or self._is_closed:
                raise _lost(lost) from lost
        if self._unpooled is None:
            self._unpooled = self._session(is_pooling=False)
        try:
            return await self._open(self._unpooled, request)
        except ConnectionLost as lost:
            raise _lost(lost) from lost

    async def close(self) -> None:
        """Break every connection, idle or not."""
        self._is_closed = True
        for session in (self._pooled, self._unpooled):
            if session is not None:
                await session.close()

    def _session(self, *, is_pooling: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(is_pooling=is_pooling),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"gw/{_version()}", "Accept-Encoding": "identity"},
            skip_auto_headers=("Accept",),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_seconds),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )

    async def _open(
        self, session: aiohttp.ClientSession, request: UpstreamRequest
    ) -> UpstreamResponse:
        """One try. Raises as `Wire.open`, and ConnectionLost."""
        try:
            response = await session.request(
                request.method,
                self._address(request.url),
                headers=request.headers,
                data=RequestBody(request.body) if request.body else None,
                allow_redirects=False,
            )
        except ConnectionLost:
            raise
        except aiohttp.ClientResponseError as error:
            raise UpstreamMalformed(error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamUnreachable(f"{type(error).__name__}: {error}") from error
        encoding = response.headers.get("Content-Encoding", "identity")
        if response.status < 200 or (response.ok and encoding.lower() != "identity"):
            response.close()
            raise UpstreamMalformed(f"status {response.status}, content-encoding {encoding!r}")
        return AioHttpResponse(response)


class AioHttpResponse(UpstreamResponse):
    """One answer; also the iterator over its pieces."""

    __slots__ = ("_content", "_response")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content

    def __repr__(self) -> str:
        state = "closed" if self._response.closed else "open"
        return f"<AioHttpResponse {self._response.status} {state}>"

    @property
    def status(self) -> int:
        """See UpstreamResponse."""
        return self._response.status

    def header(self, name: str) -> str | None:
        """See UpstreamResponse."""
        return self._response.headers.get(name)

    def chunks(self) -> AsyncIterator[bytes]:
        """See UpstreamResponse."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            self._response.close()
            raise UpstreamCut(f"{type(error).__name__}: {error}") from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def read(self, limit: int) -> bytes:
        """See UpstreamResponse."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self:
            size += len(piece)
            if size > limit:
                self._response.close()
                raise UpstreamMalformed(f"a body of more than {limit} bytes")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """See UpstreamResponse."""
        self._response.close()


def _address(url: str) -> URL:
    """An address as it is written, without quoting it again."""
    try:
        address = URL(url, encoded=True)
        _ = address.port  # looked at only on use
    except ValueError as error:
        raise UpstreamUnreachable(f"{url}: {error}") from error
    return address


def _lost(lost: ConnectionLost) -> UpstreamCut | UpstreamUnreachable:
    return UpstreamCut(lost) if lost.had_answered else UpstreamUnreachable(lost)


def _version() -> str:
    try:
        return metadata.version("model-gateway")
    except metadata.PackageNotFoundError:  # run from a folder that was never installed
        return "0"
