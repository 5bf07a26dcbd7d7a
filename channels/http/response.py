"""One response: its head, and what of its body has come and has not been taken.

It outlives its exchange: the connection lets go of it at the response's end and may carry the next
request while this one's last bytes still wait here. Filled by its source: `connection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Protocol

from channels.errors import UpstreamCut, UpstreamMalformed
from channels.http.interfaces import Sink

# So many pieces wait as they came.
PIECES_MAX = 16


class ResponseSource(Protocol):
    """What a response knows of the connection that brings it."""

    is_held: bool  # reading has stopped, until `resume`

    def resume(self) -> None:
        """Read on: what waited has been taken."""

    def abort(self) -> None:
        """Close now: the rest is not wanted."""


class Http1Response:
    """One response; also the iterator over its pieces. An UpstreamResponse.

    `status` is 0 until its head is here. Its source is None once there is nothing more to come
    from it: the response has ended, was closed, or was lost, and then `fault` says so.
    """

    __slots__ = (
        "_keeps_up",
        "_sink",
        "_source",
        "_waiter",
        "fault",
        "fields",
        "pieces",
        "status",
        "waiting_bytes",
    )

    def __init__(self, source: ResponseSource) -> None:
        self.status = 0
        self.fields: dict[bytes, bytes] = {}  # names in lower case; of a repeated one the first
        self.pieces: list[bytes] = []
        self.waiting_bytes = 0  # in `pieces`
        self._source: ResponseSource | None = source
        self.fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None  # what takes the pieces instead of a waiting reader
        self._keeps_up: asyncio.Future[None] | None = None  # the sink is to be waited for

    def __repr__(self) -> str:
        state = "closed" if self._source is None else "open"
        return f"<Http1Response {self.status} {state} {self.waiting_bytes} bytes waiting>"

    # --- For the opener ---

    @property
    def has_ended(self) -> bool:
        """See UpstreamResponse."""
        return self._source is None

    def header(self, name: str) -> str | None:
        """See UpstreamResponse."""
        value = self.fields.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def chunks(self) -> AsyncIterator[bytes]:
        """See UpstreamResponse."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self.pieces:
            if self._source is None:
                if self.fault is None:
                    raise StopAsyncIteration
                raise UpstreamCut(self.fault)
            await self._arrival()
        return self._take()

    async def pour(self, sink: Sink) -> None:
        """See UpstreamResponse. What comes is handed over as it is read, and no task wakes for it.

        While the sink is waited for, at most what stops the reading is read ahead.
        """
        while not sink.is_over:
            if self.pieces:
                keeps_up = sink.take(self._take())
            elif self._source is not None:
                self._sink = sink
                try:
                    await self._arrival()
                finally:
                    self._sink = None
                keeps_up, self._keeps_up = self._keeps_up, None
            elif self.fault is not None:
                raise UpstreamCut(self.fault)
            else:
                return
            if keeps_up is not None:
                await keeps_up

    async def read(self, limit: int) -> bytes:
        """See UpstreamResponse."""
        if self._source is None and self.fault is None and self.waiting_bytes <= limit:
            return self._take()  # all of it is here, as mostly
        size = 0
        first = b""
        # An eighth larger than what is in it, however it came, and never copied as a whole: the
        # system moves the pages of what is large.
        buffer: BytesIO | None = None
        async for piece in self:
            size += len(piece)
            if size > limit:
                self.close()
                raise UpstreamMalformed(f"a body of more than {limit} bytes")
            if not first:
                first = piece
                continue
            if buffer is None:
                buffer = BytesIO()
                buffer.write(first)
            buffer.write(piece)
        return first if buffer is None else buffer.getvalue()

    def close(self) -> None:
        """See UpstreamResponse."""
        source = self._source
        if source is not None:
            self.pieces.clear()
            self.lost(UpstreamCut("closed by the gateway"))
            source.abort()

    async def opened(self) -> None:
        """Wait for the head. Raises what the connection was lost with, or UpstreamMalformed."""
        try:
            while not self.status and self._source is not None:
                await self._arrival()
        except asyncio.CancelledError:
            self.close()
            raise
        if not self.status:
            assert self.fault is not None
            raise self.fault
        encoding = self.fields.get(b"content-encoding", b"identity").lower()
        if self.status < 400 and encoding != b"identity":
            self.close()
            raise UpstreamMalformed(f"content-encoding {encoding!r}")

    def _take(self) -> bytes:
        """All that is buffered; reading goes on if it had stopped."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.waiting_bytes = 0
        source = self._source
        if source is not None and source.is_held:
            source.resume()
        return data

    def _arrival(self) -> asyncio.Future[None]:
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        return waiter

    # --- For the connection ---

    def count(self) -> None:
        """Some pieces may have come. Many small ones become one: each is an object of its own."""
        pieces = self.pieces
        if len(pieces) > PIECES_MAX:
            pieces[:] = (b"".join(pieces),)
        self.waiting_bytes = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))

    @property
    def ends_with_connection(self) -> bool:
        """Whether the head is here and names no other end of the body."""
        return (
            self.status != 0
            and b"content-length" not in self.fields
            and b"transfer-encoding" not in self.fields
        )

    def arrived(self) -> None:
        """There is more of it: in `pieces`, or the head."""
        sink = self._sink
        if sink is None:
            self._wake()
        elif self.pieces and self._waiter is not None and not self._waiter.done():
            try:
                keeps_up = sink.take(self._take())
                is_over = sink.is_over
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised by `pour`
                self._sink = None
                self._waiter.set_exception(error)
                self._waiter.exception()  # `pour` may be cancelled at this very moment
                return
            if keeps_up is not None or is_over:
                self._sink = None
                self._keeps_up = keeps_up
                self._wake()

    def _wake(self) -> None:
        """Wake the waiting reader."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def ended(self) -> None:
        """All of it is here."""
        self._source = None
        self._wake()

    def lost(self, fault: Exception) -> None:
        """Nothing more of it will come."""
        self._source = None
        self.fault = fault
        self._wake()
