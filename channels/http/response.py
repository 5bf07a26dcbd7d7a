"""One response: its head, and the buffered part of its body. The connection fills it.

It outlives its exchange: the connection releases it at the response's end, and may carry the next
request while the last bytes are still buffered here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Protocol

from channels.answers import KEEPER, SMALL_ANSWER_BYTES
from channels.errors import UpstreamCut, UpstreamMalformed
from channels.http.interfaces import Sink

# With more buffered pieces than this, they are joined.
PIECES_MAX = 16
# Limits of one turn of the event loop. A sink gets at most this many bytes and lines, as each line
# may be an event that is parsed and encoded: a common event has some 250 bytes in two lines. Of a
# head, or a chunked body, at most this many lines are parsed, as each may be a field or half a
# chunk.
TURN_BYTES = 16 * 1024
TURN_LINES = 512
# The shortest line with work for the parser: a name of one character and a colon.
LINE_BYTES_MIN = 3

_LINES = re.compile(rb"(?:[^\r\n]*+[\r\n]){%d}" % TURN_LINES)


class ResponseSource(Protocol):
    """The connection that a response is received on."""

    @property
    def is_reading_paused(self) -> bool: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...


class Http1Response:
    """One response; also the iterator over its pieces. An UpstreamResponse.

    `status` is 0 until its head was received. Its source is None once no more will be received: the
    response has ended, was closed, or was lost; in the latter cases `fault` is the reason.
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
        self.fields: dict[bytes, bytes] = {}  # names in lower case; the first of repeated ones
        self.pieces: list[bytes] = []
        self.waiting_bytes = 0  # in `pieces`
        self._source: ResponseSource | None = source
        self.fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None  # takes the pieces instead of a waiting reader
        self._keeps_up: asyncio.Future[None] | None = None  # to await before the sink gets more

    def __repr__(self) -> str:
        state = "closed" if self._source is None else "open"
        return f"<Http1Response {self.status} {state} {self.waiting_bytes} bytes waiting>"

    # --- For the opener ---

    @property
    def has_ended(self) -> bool:
        """See UpstreamResponse."""
        return self._source is None

    @property
    def has_proven_end(self) -> bool:
        """See UpstreamResponse."""
        return not self.ends_with_connection

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
            await self.arrival()
        return self._take()

    async def pour(self, sink: Sink) -> None:
        """See UpstreamResponse. Received pieces go to the sink without waking a task.

        While the sink's future is awaited, at most `WAITING_BYTES_MAX` and one read are buffered;
        the same holds while more is buffered than one turn of the loop takes.
        """
        while not sink.is_over:
            if self.pieces:
                keeps_up = sink.take(self._take_turn())
                if keeps_up is None and self.pieces and not sink.is_over:
                    await asyncio.sleep(0)
            elif self._source is not None:
                self._sink = sink
                try:
                    await self.arrival()
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
            return self._take()  # all of it is buffered, as usual
        size = 0
        first = b""
        kept, keeper = SMALL_ANSWER_BYTES, KEEPER.get()
        # Allocates at most an eighth more than its content and is never copied as a whole: the
        # system moves the pages of a large one.
        buffer: BytesIO | None = None
        async for piece in self:
            size += len(piece)
            if size > limit:
                self.close()
                raise UpstreamMalformed(f"a body of more than {limit} bytes")
            if size > kept and keeper is not None:
                # All at once where the length is stated, so that few answers wait half read.
                stated = self._stated_bytes
                kept = min(stated, limit) if stated >= size else size + KEPT_STEP_BYTES
                await keeper.keep(kept)
            if not first:
                first = piece
                continue
            if buffer is None:
                buffer = BytesIO()
                buffer.write(first)
            buffer.write(piece)
        return first if buffer is None else buffer.getvalue()

    @property
    def _stated_bytes(self) -> int:
        """The length of the body that its head states; 0 if it states none."""
        stated = self.fields.get(b"content-length", b"")
        return int(stated) if stated.isdigit() else 0

    def close(self) -> None:
        """See UpstreamResponse."""
        source = self._source
        if source is not None:
            self.pieces.clear()
            self.lost(UpstreamCut("closed by the gateway"))
            source.abort()

    def _take(self) -> bytes:
        """Take all that is buffered; resume reading if it was paused."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.waiting_bytes = 0
        source = self._source
        if source is not None and source.is_reading_paused:
            source.resume()
        return data

    def _take_turn(self) -> bytes:
        """Take one turn's share of the buffer; resume reading once it is empty."""
        if self.waiting_bytes <= TURN_LINES:  # each has at least one byte
            return self._take()
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        end = _end_of_turn(data)
        if end == len(data):
            pieces[:] = (data,)
            return self._take()
        pieces[:] = (data[end:],)
        self.waiting_bytes -= end
        return data[:end]

    def arrival(self) -> asyncio.Future[None]:
        """Return a future of the whole head or, after it, of more; also of the end and a loss."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        return waiter

    # --- For the connection ---

    def count(self) -> None:
        """Update the size after new pieces. Many small ones are joined: each is an object."""
        pieces = self.pieces
        if len(pieces) == 1:
            self.waiting_bytes = len(pieces[0])
            return
        if len(pieces) > PIECES_MAX:
            pieces[:] = (b"".join(pieces),)
        self.waiting_bytes = sum(map(len, pieces))

    @property
    def is_in_lines(self) -> bool:
        """Whether a head, or a chunked body, is received next."""
        return not self.status or b"transfer-encoding" in self.fields

    @property
    def ends_with_connection(self) -> bool:
        """Whether the head was received and only the end of the connection ends the body."""
        return (
            self.status != 0
            and b"content-length" not in self.fields
            and b"transfer-encoding" not in self.fields
        )

    def arrived(self) -> None:
        """Hand over new pieces, or the head alone."""
        sink = self._sink
        if sink is None:
            self._wake()
        elif self.pieces and self._waiter is not None and not self._waiter.done():
            try:
                keeps_up = sink.take(self._take_turn())
                is_over = sink.is_over
            except Exception as error:  # noqa: BLE001 - it is raised by `pour`
                self._sink = None
                self._waiter.set_exception(error)
                self._waiter.exception()  # `pour` may be cancelled at the same time
                return
            if keeps_up is not None or is_over or self.pieces:
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
        """Mark the response as complete."""
        self._source = None
        self.count()
        self._wake()

    def lost(self, fault: Exception) -> None:
        """Mark the response as failed."""
        self._source = None
        self.fault = fault
        self._wake()


def _end_of_turn(data: bytes) -> int:
    """Return the size of one turn's share: up to its last empty line, if it has one.

    So events are seldom split, because whole ones are parsed faster.
    """
    end = min(len(data), TURN_BYTES)
    if data.count(b"\n", 0, end) + data.count(b"\r", 0, end) > TURN_LINES:
        found = _LINES.match(data, 0, end)
        assert found is not None
        end = found.end()
    if end < len(data) and (last := data.rfind(b"\n\n", 0, end)) >= 0:
        end = last + 2
    return end


# A large body that is read whole takes its room in steps.
KEPT_STEP_BYTES = 1024 * 1024
