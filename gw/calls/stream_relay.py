"""A stream under way: what the upstream sends, as blocks of events to the client.

Between the first event and the last no task wakes up: the upstream's connection hands a piece
over, and what becomes of it is written at once. Only a client that does not keep up is waited for,
and meanwhile the upstream is not read. How the call ends is the conversation's.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator
from typing import Any

from channels.errors import UpstreamError
from channels.http.interfaces import Sink
from gw.calls.call import ResponseWriter
from gw.calls.settlement import Settlement
from gw.calls.stream import StreamedResponse

# How long a stream that has no terminator is waited for once all of it seems to be here: more may
# follow, but an upstream that leaves it open must not keep the client from its last events.
ENDING_SECONDS = 5.0
# How long an upstream may take to end its stream behind its terminator. What comes until then is
# the client's, who has the terminator already, and pays for none of it.
REST_SECONDS = 0.5


class Relay(Sink):
    """Takes one stream from its first event on.

    `last` is what is held back until the call is settled: the blocks from the response's end on.
    """

    __slots__ = (
        "_deadline",
        "_first_byte",
        "_has_terminator",
        "_keeps_up",
        "_key",
        "_meter",
        "_more",
        "_pipeline",
        "_redaction",
        "_stream",
        "_timer",
        "_writer",
        "last",
    )

    def __init__(
        self,
        stream: StreamedResponse,
        settlement: Settlement[Any],
        writer: ResponseWriter,
        *,
        deadline: float,
    ) -> None:
        """`deadline` is loop time."""
        self.last: list[bytes] = []
        self._stream = stream
        self._pipeline = stream.pipeline
        self._meter = stream.meter
        self._redaction = stream.redaction
        self._key = stream.redaction.key
        self._more = stream.redaction.more
        self._has_terminator = stream.has_terminator
        self._first_byte = settlement.first_byte if writer.sends_at_once else _nothing_is_out
        self._writer = writer
        self._deadline = deadline
        self._timer = asyncio.timeout_at(deadline)
        self._keeps_up: Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """See Sink."""
        return self._pipeline.is_over

    @property
    def is_held_up(self) -> bool:
        """Whether the client is waited for, or was when the time was over."""
        keeps_up = self._keeps_up
        return keeps_up is not None and (keeps_up.cancelled() or not keeps_up.done())

    async def run(self) -> None:
        """Pass on all that comes. Raises UpstreamError, TimeoutError and ClientGone."""
        stream = self._stream
        if self.is_over:  # all of it came in one read: nothing is waited for
            self._pass_on(stream.first_chunk)
            return
        async with self._timer:
            keeps_up = self._pass_on(stream.first_chunk)
            if keeps_up is not None:
                await keeps_up
            await stream.response.pour(self)
            if not self.is_over and (block := self._pipeline.last()):
                keeps_up = self._pass_on(block)
                if keeps_up is not None:
                    await keeps_up

    async def finish(self) -> None:
        """Send what is left, untranslated what stands behind the terminator too; then end.

        The call is settled. Raises ClientGone.
        """
        pipeline, response = self._pipeline, self._stream.response
        if pipeline.is_over and pipeline.passes_rest_on:
            self.last.append(self._redaction.errors.redacted(pipeline.rest))
            try:
                if response.has_ended:
                    self.last += [piece async for piece in self._rest()]
                else:
                    await self._pass_rest_on()
            except (TimeoutError, UpstreamError):
                response.close()
        self._writer.finish(b"".join(self.last))

    async def _pass_rest_on(self) -> None:
        """Send the terminator, and what follows it as it comes. Raises TimeoutError."""
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(min(self._deadline, now + REST_SECONDS)):
            terminator, self.last = b"".join(self.last), []
            keeps_up = self._writer.write(terminator)
            if keeps_up is not None:
                await keeps_up
            async for piece in self._rest():
                keeps_up = self._writer.write(piece)
                if keeps_up is not None:
                    await keeps_up

    async def _rest(self) -> AsyncIterator[bytes]:
        async for piece in self._stream.response.chunks():
            yield self._redaction.errors.redacted(piece)

    def take(self, piece: bytes) -> Future[None] | None:
        """See Sink."""
        block = self._pipeline.take(piece)
        return self._pass_on(block) if block else None

    def _pass_on(self, block: bytes) -> Future[None] | None:
        last = self.last
        if self._meter.error_seen is not None:
            block = self._redaction.errors.redacted(block)
        elif self._key is not None and (self._key in block or self._more):
            block = self._redaction.without_key(block)
        if self._meter.finished:
            if not (last or self._has_terminator):
                now = asyncio.get_running_loop().time()
                self._timer.reschedule(min(self._deadline, now + ENDING_SECONDS))
            last.append(block)
            return None
        if last:  # another candidate has begun after the others had ended
            self._timer.reschedule(self._deadline)
            block = b"".join((*last, block))
            last.clear()
        self._first_byte()
        self._keeps_up = keeps_up = self._writer.write(block)
        return keeps_up


def _nothing_is_out() -> None:
    """What is written is collected: it goes out as a whole, or not at all."""
