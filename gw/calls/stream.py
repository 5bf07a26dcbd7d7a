"""A stream under way: from an upstream's bytes to the client's, one read at a time.

    read ▶ events (`channels/http/sse.py`) ▶ each metered and written ▶ chunk ▶ client

`StreamPipeline` neither waits nor sends: what a read brought goes in, the bytes that the client
gets for it come out. The first chunk commits the call to its channel, so it has an event in it:
comments that come before wait for it. Nothing counts after the terminator. `Relay` passes on all
that comes from the first chunk on; how the call ends is the conversation's (`chat.py`).
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from channels.dialects.dialect import ChatDialect, Meter
from channels.dialects.error_body import error_reported
from channels.errors import ErrorMembers, ErrorReported, UpstreamError, UpstreamMalformed
from channels.http.interfaces import Sink, UpstreamResponse
from channels.http.sse import SseEvent, SseSplitter
from channels.json import EVENT_VALUES_MAX, is_heavy_event
from channels.redaction import ExactRedaction, LinesRedaction
from channels.translation.session import TranslatedStream
from gw.calls.call import ResponseWriter
from metrics.logs import EventLog

# What becomes of an event of a stream: metered, and written as it came or translated.
#
# A channel that speaks the client's protocol has its events passed on as they are. Otherwise a
# translation (`channels/translation`) reads and writes beside the meter: usage is always metered as
# the upstream states it.

# A client that is sent nothing for so long gets a sign that the response is still coming.
SILENCE_SECONDS = 10.0


class Framing(Protocol):
    """How the events of a stream reach the client.

    `keeps_events`: server-sent events are passed on as they are, so that bytes that are some
    already need not be taken apart.
    """

    @property
    def content_type(self) -> str: ...

    @property
    def keeps_events(self) -> bool: ...

    def event(self, event: SseEvent) -> bytes:
        """The bytes of one event; none where the form cannot carry it."""

    def end(self) -> bytes:
        """The bytes that end a complete response."""

    def broken(self, message: str) -> bytes:
        """The bytes that end one that failed: none, but where the gateway closes its streams.

        `message` is the reason, for the client (spec: Stream failure behaviour 1, 3).
        """


class SseFraming:
    """Server-sent events as the upstream sent them, byte for byte."""

    content_type = "text/event-stream; charset=utf-8"
    keeps_events = True

    def event(self, event: SseEvent) -> bytes:
        return event.raw

    def end(self) -> bytes:
        return b""

    def broken(self, message: str) -> bytes:
        return b""


class EventWriter(Protocol):
    """Writes the events of one stream.

    `is_verbatim`: they leave byte for byte as they came, so what was read need not be taken apart.
    `needs_data_only`: nothing of an event but its data is looked at.
    """

    @property
    def is_verbatim(self) -> bool: ...

    @property
    def needs_data_only(self) -> bool: ...

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """Meter an event; the client's bytes for it, None where it is not for this client."""

    def comment(self, event: SseEvent) -> bytes:
        """The client's bytes for an event without data."""

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """Raise ErrorReported where the first event that is the client's, with these data, fails.

        `written` is not out yet, so another channel may still be asked.
        """


class PassthroughEvents:
    """Events as the upstream sent them; usage is withheld from a client that did not ask for it."""

    needs_data_only = False

    def __init__(self, meter: Meter, framing: Framing, *, forwards_usage: bool) -> None:
        self._meter = meter
        self._framing = framing
        self._forwards_usage = forwards_usage
        self.is_verbatim = framing.keeps_events

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        if not self._meter.reads_any_size and is_heavy_event(data):
            raise _too_heavy()
        is_clients = self._meter.event(data) or self._forwards_usage
        return self._framing.event(event) if is_clients else None

    def comment(self, event: SseEvent) -> bytes:
        return self._framing.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. Behind an event that is no error, one is the client's, as it came."""
        if self._meter.error_seen is not None:
            raise error_reported(data)


class TranslatedFraming:
    """The upstream's events as the client's protocol has them, in the form the client asked for.

    The translation is given what the meter has read, so that an event is decoded once; it decides
    by itself who is sent the usage.
    """

    is_verbatim = False
    needs_data_only = True

    def __init__(
        self,
        stream: TranslatedStream,
        framing: Framing,
        meter: Meter,
        *,
        has_terminator: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._spoke = monotonic()
        self._stream = stream
        self._framing = framing
        self._splitter = SseSplitter()
        self._meter = meter
        self._has_terminator = has_terminator
        self._has_ended = False
        self.content_type = framing.content_type
        self.keeps_events = framing.keeps_events

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        if is_heavy_event(data):
            raise _too_heavy()
        read = self._meter.read(data)
        self._meter.take(read)
        return self.take(read)

    def comment(self, event: SseEvent) -> bytes:
        """See EventWriter."""
        return self.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. What the upstream still sends, its usage too, is dropped."""
        error = self._stream.failed or self._meter.error_seen
        if error is not None and not written:
            status = error_reported(data).status
            raise ErrorReported(ErrorMembers(error.message), status=status)

    def event(self, event: SseEvent) -> bytes:
        """What a client gets for an event without content, such as a comment."""
        return self._sent(self._framed(self._filler()))

    def take(self, read: Any) -> bytes:
        """The bytes for an event of the upstream that has been read and metered."""
        written = self._sent(self._framed(self._stream.take(read) or self._filler()))
        if self._meter.finished and self._has_terminator:
            return written + self.end()
        return written

    def _sent(self, written: bytes) -> bytes:
        if written:
            self._spoke = self._monotonic()
        return written

    def _filler(self) -> bytes:
        """What keeps the connection alive, where the upstream only shows that it is still there.

        Its own comments and pings, and thoughts that the client's protocol cannot carry, send
        nothing to the client; what stands between them cuts connections that are silent.
        """
        if self._monotonic() - self._spoke < SILENCE_SECONDS:
            return b""
        return self._stream.keep_alive

    def end(self) -> bytes:
        """The client's end of a complete response; once, and none after an error."""
        if self._has_ended or self._stream.failed is not None:
            return b""
        self._has_ended = True
        return self._framed(self._stream.end()) + self._framing.end()

    def broken(self, message: str) -> bytes:
        """What closes a stream that failed; none where it just ends."""
        return self._framed(self._stream.broken(message))

    def _framed(self, written: bytes) -> bytes:
        """A translation writes whole events; a client may want them in another form."""
        if not written or self.keeps_events:
            return written
        return b"".join(map(self._framing.event, self._splitter.feed(written)))


def _too_heavy() -> UpstreamMalformed:
    return UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")


# The last guard before an upstream's bytes: a fault of ours in reading them is logged.
#
# Every reader of responses takes any bytes there are. Should one not, then the response is what
# cannot be used, another channel may do better, and the log names the place.

_LOG = EventLog("gw.calls")


def unreadable(error: Exception) -> UpstreamMalformed:
    """The error that is raised instead of one that reading a response has raised."""
    _LOG.error("answer_unreadable", exc_info=True, error=type(error).__name__)
    return UpstreamMalformed(f"an answer that cannot be read: {error!r:.200}")


# Comments that are kept back until the first event comes.
EARLY_BYTES_MAX = 64 * 1024


class StreamPipeline:
    """Whole events, as many as each read brought, as the client is to have them.

    `has_next`: whether another channel can be asked in place of one whose stream begins with an
    error. Where none can, a stream that is passed through is the client's, as it came.
    `redaction` is the channel's own: nothing here or behind it reads one of its secrets.
    `rest` is what has come behind the terminator, where that is passed on (`passes_rest_on`: to the
    client of a passthrough); it is not decoded.
    """

    __slots__ = (
        "_dialect",
        "_early",
        "_early_bytes",
        "_events",
        "_forwards_usage",
        "_has_begun",
        "_has_next",
        "_meter",
        "_redaction",
        "_splitter",
        "passes_rest_on",
        "rest",
    )

    def __init__(
        self,
        meter: Meter,
        dialect: ChatDialect,
        framing: Framing,
        *,
        forwards_usage: bool,
        has_next: Callable[[], bool],
        redaction: ExactRedaction,
    ) -> None:
        self.rest = b""
        self._redaction = redaction
        self._splitter = SseSplitter()
        self._meter = meter
        self._dialect = dialect
        self._events: EventWriter
        self._has_next = has_next
        if isinstance(framing, TranslatedFraming):
            self._events = framing
        else:
            self._events = PassthroughEvents(meter, framing, forwards_usage=forwards_usage)
        self._forwards_usage = forwards_usage
        self.passes_rest_on = self._events.is_verbatim
        self._has_begun = False
        self._early: list[bytes] = []
        self._early_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the terminator has been seen: nothing counts after it."""
        return self._meter.finished and self._dialect.has_terminator

    def take(self, piece: bytes) -> bytes:
        """The chunk that a piece of the response completes; often the piece itself, or nothing.

        Raises UpstreamError.
        """
        try:
            piece = self._redaction.redacted(piece)
            if self._early:
                return self._written(self._fed(piece))
            if self.passes_rest_on:
                datas = self._splitter.whole_events(piece)
                if datas is not None:
                    return self._passed_through(piece, datas)
            elif self._events.needs_data_only:
                datas = self._splitter.whole_events(piece)
                if datas is not None:
                    return self._written([SseEvent(b"", data) for data in datas])
            return self._written(self._fed(piece))
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error

    def last(self) -> bytes | None:
        """The chunk of what is left when the upstream has ended; None when nothing is.

        Some end right after their last event, without the blank line it lacks. The line is added
        to read the event, and left out of its bytes. Raises UpstreamError.
        """
        try:
            return self._last()
        except UpstreamError:
            raise
        except Exception as error:  # as in `take`
            raise unreadable(error) from error

    def _fed(self, piece: bytes) -> list[SseEvent]:
        """The events that a piece completes. A secret may be cut in two within the first."""
        is_cut = self._splitter.is_within_event
        events = self._splitter.feed(piece)
        if is_cut and events and not self._redaction.is_clear(events[0].raw):
            first, redacted = events[0], self._redaction.redacted
            data = None if first.data is None else redacted(first.data)
            events[0] = SseEvent(redacted(first.raw), data, first.event)
        return events

    def _passed_through(self, piece: bytes, datas: list[bytes]) -> bytes:
        """The chunk of a piece that consists of events with these data, and of nothing else."""
        meter = self._meter
        withheld: set[int] = set()
        for index, data in enumerate(datas):
            if not meter.event(data) and not self._forwards_usage:
                withheld.add(index)
            if meter.finished and self._dialect.has_terminator:
                break
        if meter.error_seen is not None and not self._has_begun and self._has_next():
            self._refuse_failure(datas)
        if withheld or index + 1 < len(datas):
            *raws, rest = piece.split(b"\n\n", index + 1)
            if withheld:
                raws = [raw for index, raw in enumerate(raws) if index not in withheld]
            piece = b"\n\n".join((*raws, b""))
            self._keep_rest(rest)
        self._has_begun = self._has_begun or bool(piece)
        return piece

    def _refuse_failure(self, datas: list[bytes]) -> None:
        """Raise ErrorReported where the first of these that is the client's is an error.

        They have been metered; this is read once more, by a meter of its own, as it is rare.
        """
        meter = self._dialect.new_meter()
        for data in datas:
            if meter.event(data) or self._forwards_usage:
                if meter.error_seen is not None:
                    self._events.refuse_failure(data, data)
                return

    def _written(self, events: list[SseEvent]) -> bytes:
        """The chunk of these events, written one by one, with the comments kept back so far."""
        kept = self._early
        for index, event in enumerate(events):
            if event.data is None:
                kept.append(self._events.comment(event))
                self._early_bytes += len(kept[-1])
                continue
            written = self._events.write(event, event.data)
            if written is not None:
                kept.append(written)
                if not self._has_begun:
                    self._begin(event.data, written)
            if self.is_over:
                self._keep_rest(*[event.raw for event in events[index + 1 :]])
                self._keep_rest(self._splitter.pending())
                break
        if not self._has_begun:
            if self._early_bytes < EARLY_BYTES_MAX:
                return b""
            self._has_begun = True
        self._early = []
        return b"".join(kept)

    def _begin(self, data: bytes, written: bytes) -> None:
        """The first event that is the client's begins the stream, if it has content.

        Raises ErrorReported where that is an error, and is not passed through for want of another
        channel.
        """
        if isinstance(self._events, TranslatedFraming) or self._has_next():
            self._events.refuse_failure(data, written)
        self._has_begun = bool(written)

    def _last(self) -> bytes | None:
        early, self._early = self._early, []
        rest = self._redaction.redacted(self._splitter.pending())
        for event in self._fed(b"\n\n"):
            if event.data is not None and self._dialect.ends(event.data):
                last = SseEvent(rest, event.data, event.event)
                written = self._events.write(last, event.data) or b""
                if not self._has_begun:
                    self._begin(event.data, written)
                self._has_begun = True
                return b"".join((*early, written))
        if self._meter.finished and self.passes_rest_on and rest:
            self._has_begun = True
            return b"".join((*early, rest))
        if self._meter.finished and not self._has_begun:
            # A translated response may have no event before its end, and is whole all the
            # same.
            self._has_begun = True
            return b"".join(early)
        return None

    def _keep_rest(self, *rest: bytes) -> None:
        if self.passes_rest_on:
            self.rest = b"".join((self.rest, *rest))


# A stream that has begun, and what passes it on.
#
# Between the first event and the last no task wakes up: the upstream's connection hands a piece
# over, and what becomes of it is written at once. Only a client that does not keep up is waited
# for, and meanwhile the upstream is not read.


class StreamedResponse(Struct, frozen=True):
    """A stream that has begun: its first events, as bytes for the client, and where more come."""

    first_chunk: bytes
    response: UpstreamResponse
    pipeline: StreamPipeline
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    errors: ExactRedaction  # of all channels, for error events and what follows the terminator


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
        "_meter",
        "_pipeline",
        "_stream",
        "_timer",
        "_writer",
        "last",
    )

    def __init__(
        self,
        stream: StreamedResponse,
        writer: ResponseWriter,
        *,
        first_byte: Callable[[], None],
        deadline: float,
    ) -> None:
        """`deadline` is loop time. `first_byte` is called with each block that goes out."""
        self.last: list[bytes] = []
        self._stream = stream
        self._pipeline = stream.pipeline
        self._meter = stream.meter
        self._has_terminator = stream.has_terminator
        self._first_byte = first_byte if writer.sends_at_once else _nothing_is_out
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
            rest = LinesRedaction(self._stream.errors)
            self.last.append(rest.take(pipeline.rest))
            try:
                if response.has_ended:
                    self.last += [rest.take(piece) async for piece in response.chunks()]
                else:
                    await self._pass_rest_on(rest)
            except (TimeoutError, UpstreamError):
                response.close()
            self.last.append(rest.end())
        self._writer.finish(b"".join(self.last))

    async def _pass_rest_on(self, rest: LinesRedaction) -> None:
        """Send the terminator, and what follows it as it comes. Raises TimeoutError."""
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(min(self._deadline, now + REST_SECONDS)):
            terminator, self.last = b"".join(self.last), []
            keeps_up = self._writer.write(terminator)
            if keeps_up is not None:
                await keeps_up
            async for piece in self._stream.response.chunks():
                if shown := rest.take(piece):
                    keeps_up = self._writer.write(shown)
                    if keeps_up is not None:
                        await keeps_up

    def take(self, piece: bytes) -> Future[None] | None:
        """See Sink."""
        block = self._pipeline.take(piece)
        return self._pass_on(block) if block else None

    def _pass_on(self, block: bytes) -> Future[None] | None:
        last = self.last
        if self._meter.error_seen is not None:
            block = self._stream.errors.redacted(block)
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
