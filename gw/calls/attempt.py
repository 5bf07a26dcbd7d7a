"""One try on one channel: open the request and read far enough to know whether it is an answer.

What comes back is an answer (whole, or a stream whose first events are here) or a refusal (4xx);
everything that another channel may do better is raised as UpstreamError. Until a stream's first
event nothing has reached the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from actors.channel import Lease
from actors.clock import Clock
from actors.router import Candidate
from channels.errors import (
    UpstreamCut,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from channels.protocols.dialect import Meter
from channels.wire.http import UpstreamResponse, Wire
from channels.wire.sse import SseEvent, SseSplitter
from gw.calls.answers import Answer, Refusal, StreamAnswer, UpstreamFailed, WholeAnswer
from gw.calls.call import ChatCall, Framing
from gw.calls.running import Running
from gw.calls.speech import Speech, TranslatedFraming
from gw.calls.tokens import TokenBill

# Of an error body only the message is used.
ERROR_BYTES_MAX = 256 * 1024
# Comments that are kept back until the first event comes.
EARLY_BYTES_MAX = 64 * 1024


@contextmanager
def trying(running: Running[Any], candidate: Candidate) -> Iterator[None]:
    """One attempt, measured; dropped when it raises. A TimeoutError becomes UpstreamTimedOut."""
    running.begin_attempt(candidate)
    try:
        yield
    except TimeoutError as error:
        running.drop_attempt("timeout")
        raise UpstreamTimedOut from error
    except UpstreamError as error:
        running.drop_attempt(_outcome(error))
        raise
    except BaseException:
        running.drop_attempt("cancelled")
        raise


class Upstream:
    """Makes attempts."""

    def __init__(self, *, wire: Wire, clock: Clock, answer_bytes_max: int) -> None:
        self._wire = wire
        self._clock = clock
        self._answer_bytes_max = answer_bytes_max

    async def attempt(
        self,
        call: ChatCall,
        candidate: Candidate,
        lease: Lease,
        *,
        deadline: float,
        running: Running[TokenBill],
    ) -> Answer:
        """Try one channel until `deadline` (loop time). Raises UpstreamError."""
        with trying(running, candidate):
            async with asyncio.timeout_at(deadline):
                return await self._open(call, candidate, lease, running)

    async def _open(
        self, call: ChatCall, candidate: Candidate, lease: Lease, running: Running[TokenBill]
    ) -> Answer:
        speech = call.speak(candidate, lease.spec)
        response = await self._wire.open(running.traced(speech.request))
        running.took_response(response)
        if not 200 <= response.status < 300:
            return await self._refusal(speech, response)
        meter = speech.dialect.new_meter()
        running.receipt.translated(speech)
        if not call.is_stream:
            body = await response.read(self._answer_bytes_max)
            meter.body(body)
            if speech.translated is not None:
                body = speech.translated.answer(body, **self._names(call, meter))
            running.bill.meter = meter
            return WholeAnswer(body, meter, speech.headers)
        framing = call.framing
        if speech.translated is not None:
            stream = speech.translated.stream(
                **self._names(call, meter), include_usage=call.forwards_usage
            )
            framing = TranslatedFraming(
                stream,
                framing,
                meter,
                has_terminator=speech.dialect.has_terminator,
                monotonic=self._clock.monotonic,
            )
        blocks = EventBlocks(response, meter, speech, framing, forwards_usage=call.forwards_usage)
        first = await anext(blocks, None)
        if first is None:
            raise UpstreamCut
        running.bill.meter = meter
        return StreamAnswer(
            first, blocks, meter, speech.headers, framing, speech.dialect.has_terminator
        )

    def _names(self, call: ChatCall, meter: Meter) -> Any:
        """What a translated answer is called, unless its stream still says it."""
        return {
            "id": meter.response_id or call.facts.call_id.hex,
            "created": int(self._clock.now()),
            "model": meter.response_model or call.model.id,
        }

    async def _refusal(self, speech: Speech, response: UpstreamResponse) -> Refusal:
        try:
            message = speech.dialect.error_message(await response.read(ERROR_BYTES_MAX))
        except UpstreamError:
            message = None  # the status alone has to do
        if response.status >= 500:
            raise UpstreamFailed(response.status, message)
        retry_after = response.header("retry-after")
        return Refusal(response.status, message, retry_after, headers=speech.headers)


def _outcome(error: UpstreamError) -> str:
    """The attempt's outcome as the metrics name it."""
    if isinstance(error, UpstreamFailed):
        return "status_5xx"
    if isinstance(error, UpstreamUnreachable):
        return "unreachable"
    return "malformed" if isinstance(error, UpstreamMalformed) else "cut"


class EventBlocks(AsyncIterator[bytes]):
    """Whole events, as many as each read brought, without those the client did not ask for.

    Ends after the terminator or when the upstream does. The first block has an event in it: what
    comes before (comments that keep the connection alive) waits for it, because the first block
    commits the call to this channel. Raises UpstreamError.

    No generator, because one that is left in the middle takes a task of its own to be closed.
    """

    def __init__(
        self,
        response: UpstreamResponse,
        meter: Meter,
        speech: Speech,
        framing: Framing,
        *,
        forwards_usage: bool,
    ) -> None:
        self._chunks = response.chunks()
        self._splitter = SseSplitter()
        self._meter = meter
        self._dialect = speech.dialect
        self._framing = framing
        # A translation decides by itself what a client that did not ask for usage is sent.
        self._forwards_usage = forwards_usage or speech.translated is not None
        self._has_begun = False
        self._early: list[bytes] = []

    async def __anext__(self) -> bytes:
        if self._meter.finished and self._dialect.has_terminator:
            raise StopAsyncIteration
        async for chunk in self._chunks:
            block = self._take(chunk)
            if block:
                return block
        return self._last()

    def _take(self, chunk: bytes) -> bytes:
        kept = self._early
        for event in self._splitter.feed(chunk):
            if event.data is None:
                kept.append(self._framing.event(event))
            elif self._meter.event(event.data) or self._forwards_usage:
                kept.append(self._framing.event(event))
                self._refuse_failure()
                self._has_begun = self._has_begun or bool(kept[-1])
            if self._meter.finished and self._dialect.has_terminator:
                break  # nothing counts after the terminator
        if not self._has_begun:
            if sum(map(len, kept)) < EARLY_BYTES_MAX:
                return b""
            self._has_begun = True
        self._early = []
        return b"".join(kept)

    def _refuse_failure(self) -> None:
        """A translated stream that begins with an error has sent nothing: try elsewhere."""
        if isinstance(self._framing, TranslatedFraming):
            message = self._framing.failed_at_once
            if message is not None:
                raise UpstreamFailed(502, message)

    def _last(self) -> bytes:
        """Some upstreams end right after their last event, without the blank line it lacks.

        The line is added to read the event, and left out of its bytes.
        """
        rest = self._splitter.pending()
        for event in self._splitter.feed(b"\n\n"):
            if event.data is not None and self._dialect.ends(event.data):
                self._meter.event(event.data)
                event = SseEvent(rest, event.data, event.event)
                return b"".join((*self._early, self._framing.event(event)))
        if self._meter.finished and not self._has_begun:
            # A translated answer may have nothing to say before its end, and is whole all the same.
            self._has_begun = True
            return b"".join(self._early)
        raise StopAsyncIteration
