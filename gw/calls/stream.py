"""A stream under way: from an upstream's bytes to the client's, one read at a time.

    read ▶ events (`channels/http/sse.py`) ▶ each metered and written ▶ chunk ▶ client

`StreamPipeline` does no I/O: it turns the bytes of a read into the bytes for the client. The first
chunk commits the call to its channel, so it contains an event: earlier comments are kept back until
then. Events after the terminator are ignored. `Relay` sends everything from the first chunk on; the
end of the call is decided in `chat.py`.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from channels.dialects.dialect import ChatDialect
from channels.dialects.error_body import error_reported
from channels.dialects.meter import Meter
from channels.errors import ErrorMembers, ErrorReported, UpstreamError, UpstreamMalformed
from channels.http.interfaces import Sink, UpstreamResponse
from channels.http.sse import SseEvent, SseSplitter
from channels.json.lenient import UNREADABLE
from channels.json.weight import EVENT_VALUES_MAX, is_heavy_event
from channels.redaction import ExactRedaction, LinesRedaction
from channels.translation.session import TranslatedStream
from gw.calls.call import ClientGone, ResponseWriter
from metrics.logs import EventLog

# Each event of a stream is metered, and passed through or translated.
#
# Events of a channel that speaks the client's protocol are passed through. Otherwise a translation
# (`channels/translation`) writes them; usage is always metered as the upstream states it.


class Framing(Protocol):
    """The form in which a client receives the events of a stream.

    `keeps_events`: the form is server-sent events, so an upstream's events need not be reframed.
    """

    @property
    def content_type(self) -> str: ...

    @property
    def keeps_events(self) -> bool: ...

    def event(self, event: SseEvent) -> bytes:
        """Return the bytes of an event; none where the form cannot carry it."""

    def end(self) -> bytes:
        """Return the bytes that end a complete response."""

    def broken(self, message: str) -> bytes:
        """Return the bytes that end a failed response: only where the gateway closes its streams.

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

    `is_verbatim`: events are sent byte for byte, so a read need not be split.
    `needs_data_only`: only the data of an event is used.
    """

    @property
    def is_verbatim(self) -> bool: ...

    @property
    def needs_data_only(self) -> bool: ...

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """Meter an event and return the client's bytes; None where it is not for this client."""

    def comment(self, event: SseEvent) -> bytes:
        """Return the client's bytes for an event without data."""

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """Raise ErrorReported if the first event for the client, with these data, is an error.

        `written` is not sent yet, so another channel may still be tried.
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
        is_clients = self._meter.take(self._meter.read(data)) or self._forwards_usage
        return self._framing.event(event) if is_clients else None

    def comment(self, event: SseEvent) -> bytes:
        return self._framing.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. An error after another event is passed through."""
        if self._meter.error_seen is not None:
            raise error_reported(data)


class TranslatedEvents:
    """Translates the upstream's events to the client's protocol, in the form the client requested.

    It is the response's framing as well: its `end` and `broken` close the response.

    The translation takes the events decoded by the meter, so that each is decoded once; it also
    decides whether the client receives the usage.
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
    ) -> None:
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
        """See EventWriter. The rest of the upstream's stream, its usage too, is dropped."""
        error = self._stream.failed or self._meter.error_seen
        if error is not None and not written:
            status = error_reported(data).status
            raise ErrorReported(ErrorMembers(error.message), status=status)

    def event(self, event: SseEvent) -> bytes:
        """Return nothing: an event without content, such as a comment, is for nobody."""
        return b""

    def take(self, read: Any) -> bytes:
        """Return the bytes for an event that was decoded and metered."""
        written = self._framed(self._stream.take(read))
        if self._meter.finished and self._has_terminator:
            return written + self.end()
        return written

    def end(self) -> bytes:
        """Return the end of a complete response; once, and none after an error."""
        if self._has_ended or self._stream.failed is not None:
            return b""
        self._has_ended = True
        return self._framed(self._stream.end()) + self._framing.end()

    def broken(self, message: str) -> bytes:
        """Return the bytes that close a failed stream; none where it just ends."""
        return self._framed(self._stream.broken(message))

    def _framed(self, written: bytes) -> bytes:
        """Put the events that a translation wrote into the client's form."""
        if not written or self.keeps_events:
            return written
        return b"".join(map(self._framing.event, self._splitter.feed(written)))


def _too_heavy() -> UpstreamMalformed:
    return UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")


# The last guard against an upstream's bytes: an exception of our readers is logged with its
# traceback and counts as an unusable response, so that another channel is tried.

_LOG = EventLog("gw.calls")


def unreadable(error: Exception) -> UpstreamMalformed:
    """Log an exception raised while a response was read; return the error to raise instead."""
    _LOG.error("answer_unreadable", exc_info=True, error=type(error).__name__)
    return UpstreamMalformed(f"an answer that cannot be read: {error!r:.200}")


# Comments kept back until the first event, and events until the first with a choice. More comments
# are dropped, because a comment is no event.
EARLY_BYTES_MAX = 64 * 1024


class StreamPipeline:
    """Turns the bytes of each read into the chunk for the client.

    `has_next`: whether another channel can be tried when the stream begins with an error. Where
    none can, a passthrough client receives the stream as it is.
    `redaction` is the channel's own: its secrets are removed before anything else reads the bytes.
    `rest` are the bytes after the terminator, which a passthrough client receives
    (`passes_rest_on`); they are not decoded.
    """

    __slots__ = (
        "_dialect",
        "_early",
        "_early_bytes",
        "_events",
        "_forwards_usage",
        "_has_begun",
        "_has_next",
        "_keeps_events",
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
        if isinstance(framing, TranslatedEvents):
            self._events = framing
        else:
            self._events = PassthroughEvents(meter, framing, forwards_usage=forwards_usage)
        self._forwards_usage = forwards_usage
        self.passes_rest_on = self._events.is_verbatim
        self._has_begun = False
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._keeps_events = False  # some of the early bytes are events

    @property
    def is_over(self) -> bool:
        """Whether the terminator was read: later events are ignored."""
        return self._meter.finished and self._dialect.has_terminator

    def take(self, piece: bytes) -> bytes:
        """Return the chunk that a piece of the response completes: often the piece itself, or none.

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
        except Exception as error:  # an upstream's bytes must not fail the call with a 500
            raise unreadable(error) from error

    def last(self, *, has_proven_end: bool) -> bytes | None:
        """Return the chunk of the rest when the upstream has ended; None if there is none.

        Some upstreams omit the blank line after the last event. It is added to parse the event, and
        left out of its bytes. `has_proven_end` is that of the response. Raises UpstreamError.
        """
        try:
            return self._last(has_proven_end)
        except UpstreamError:
            raise
        except Exception as error:  # as in `take`
            raise unreadable(error) from error

    def _fed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that a piece completes; a secret may be split across the first one."""
        is_cut = self._splitter.is_within_event
        events = self._splitter.feed(piece)
        if is_cut and events and not self._redaction.is_clear(events[0].raw):
            first, redacted = events[0], self._redaction.redacted
            data = None if first.data is None else redacted(first.data)
            events[0] = SseEvent(redacted(first.raw), data, first.event)
        return events

    def _passed_through(self, piece: bytes, datas: list[bytes]) -> bytes:
        """Return the chunk of a piece that consists of whole events with these data."""
        meter = self._meter
        withheld: set[int] = set()
        for index, data in enumerate(datas):
            if not meter.take(meter.read(data)) and not self._forwards_usage:
                withheld.add(index)
            if meter.finished and self._dialect.has_terminator:
                break
        if not self._has_begun:
            if meter.error_seen is not None and self._has_next():
                self._refuse_failure(datas)
            self._refuse_empty()
        if withheld or index + 1 < len(datas):
            *raws, rest = piece.split(b"\n\n", index + 1)
            if withheld:
                raws = [raw for index, raw in enumerate(raws) if index not in withheld]
            piece = b"\n\n".join((*raws, b""))
            self._keep_rest(rest)
        if piece and not self._has_begun and not self._may_begin:
            self._keep_back(piece)
            return b""
        self._has_begun = self._has_begun or bool(piece)
        return piece

    def _keep_back(self, event: bytes) -> None:
        """Keep an event until there is a choice; past the bound the next one begins the stream."""
        self._early.append(event)
        self._early_bytes += len(event)
        self._keeps_events = True

    @property
    def _may_begin(self) -> bool:
        """Whether events may be sent: a stream that has no choice yet may have none at all."""
        meter = self._meter
        return (
            meter.begins_at_once
            or meter.has_answer
            or meter.error_seen is not None
            or self._early_bytes > EARLY_BYTES_MAX
        )

    def _refuse_empty(self) -> None:
        """Raise UpstreamMalformed for a stream that has ended without an answer.

        Nothing of it was sent, so another channel may still be tried.
        """
        meter = self._meter
        if (
            meter.finished
            and not self._has_begun
            and not meter.has_answer
            and meter.error_seen is None
        ):
            raise UpstreamMalformed("a stream without an answer")

    def _refuse_failure(self, datas: list[bytes]) -> None:
        """Raise ErrorReported if the first event for the client is an error.

        The events are metered again, by another meter, because this is rare.
        """
        meter = self._dialect.new_meter()
        for data in datas:
            if meter.take(meter.read(data)) or self._forwards_usage:
                if meter.error_seen is not None:
                    self._events.refuse_failure(data, data)
                return

    def _written(self, events: list[SseEvent]) -> bytes:
        """Return the chunk of these events, with the comments kept back so far."""
        kept = self._early
        for index, event in enumerate(events):
            if event.data is None:
                kept.append(self._events.comment(event))
                self._early_bytes += len(kept[-1])
                continue
            written = self._events.write(event, event.data)
            if written is not None:
                if not self._has_begun:
                    self._begin(event.data, written)
                if self._has_begun or not written:
                    kept.append(written)
                else:
                    self._keep_back(written)
            if self.is_over:
                self._keep_rest(*[event.raw for event in events[index + 1 :]])
                self._keep_rest(self._splitter.pending())
                break
        if not self._has_begun:
            if self._early_bytes > EARLY_BYTES_MAX and not self._keeps_events:
                self._early, self._early_bytes = [], 0
            return b""
        self._early = []
        return b"".join(kept)

    def _begin(self, data: bytes, written: bytes) -> None:
        """Begin the stream with the first event for the client, if that has content.

        Raises ErrorReported for an error, unless it is passed through because no other channel can
        be tried.
        """
        if isinstance(self._events, TranslatedEvents) or self._has_next():
            self._events.refuse_failure(data, written)
        self._refuse_empty()
        self._has_begun = bool(written) and self._may_begin

    def _last(self, has_proven_end: bool) -> bytes | None:
        early, self._early = self._early, []
        rest = self._redaction.redacted(self._splitter.pending())
        last: bytes | None = None  # the client's bytes of the event that lacks its blank line
        is_whole = has_proven_end
        for event in self._fed(b"\n\n"):
            if event.data is None:
                continue
            is_end = self._dialect.ends(event.data)
            if not is_end and not (has_proven_end and self._is_last(event.data)):
                is_whole = False
                continue
            named = SseEvent(rest, event.data, event.event)
            last = self._events.write(named, event.data) or b""
            if not self._has_begun:
                self._begin(event.data, last)
            if is_end:
                self._has_begun = True
                return b"".join((*early, last))
        if is_whole:
            self._meter.end_of_body()
        self._refuse_empty()
        if last is None and self._meter.finished and self.passes_rest_on:
            last = rest
        if self._has_begun and last:
            return b"".join((*early, last))
        if self._meter.finished and (last or not self._has_begun):
            # A translated response may be complete without any event before its end.
            self._has_begun = True
            return b"".join((*early, last or b""))
        return None

    def _is_last(self, data: bytes) -> bool:
        """Whether an event without its blank line came whole, and the response ends with it."""
        try:
            msgspec.json.decode(data)
        except UNREADABLE:
            return False
        alone = self._dialect.new_meter()
        alone.take(alone.read(data))
        alone.end_of_body()
        self._meter.end_of_body()
        return alone.finished or self._meter.finished

    def _keep_rest(self, *rest: bytes) -> None:
        if self.passes_rest_on:
            self.rest = b"".join((self.rest, *rest))


# A stream that has begun, and its relay.
#
# No task runs between the first event and the last: the upstream's connection calls `Relay.take`
# with each read, which writes to the client at once. Only a client that reads slowly is waited for;
# meanwhile the upstream is not read.


class StreamedResponse(Struct, frozen=True):
    """A stream that has begun: the chunk of its first events, and the rest of the response."""

    first_chunk: bytes
    response: UpstreamResponse
    pipeline: StreamPipeline
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    errors: ExactRedaction  # of all channels, for error events and what follows the terminator


# How long a stream without a terminator may stay open after its last event. More events may follow,
# but an upstream that does not close must not withhold the last events from the client.
ENDING_SECONDS = 5.0
# How long an upstream may take to end its stream after the terminator. Bytes received until then
# are sent to the client, who has the terminator already and is not charged for them.
REST_SECONDS = 0.5


class Relay(Sink):
    """Sends one stream to its client, from the first event on.

    `last` are the blocks from the end of the response on, kept until the call is settled. `is_cut`:
    the response is incomplete and says so nowhere; an error event of the upstream does.
    """

    __slots__ = (
        "_deadline",
        "_has_terminator",
        "_keeps_up",
        "_meter",
        "_note_delivery",
        "_pipeline",
        "_sign",
        "_stream",
        "_timer",
        "_writer",
        "is_cut",
        "last",
        "quiet_ticks",
    )

    def __init__(
        self,
        stream: StreamedResponse,
        writer: ResponseWriter,
        *,
        note_delivery: Callable[[], None],
        deadline: float,
        sign: bytes = b"",
    ) -> None:
        """`deadline` is loop time. `note_delivery` is called before each block that is sent.

        `sign` is sent while the upstream is silent (`keep_alive.py`).
        """
        self.last: list[bytes] = []
        self.quiet_ticks = 0
        self._sign = sign
        self.is_cut = False
        self._stream = stream
        self._pipeline = stream.pipeline
        self._meter = stream.meter
        self._has_terminator = stream.has_terminator
        self._note_delivery = note_delivery if writer.sends_at_once else _nothing_is_out
        self._writer = writer
        self._deadline = deadline
        self._timer = asyncio.timeout_at(deadline)
        self._keeps_up: Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """See Sink."""
        return self._pipeline.is_over

    @property
    def waits_for_client(self) -> bool:
        """Whether the relay waits for the client, or did at the timeout."""
        keeps_up = self._keeps_up
        return keeps_up is not None and (keeps_up.cancelled() or not keeps_up.done())

    async def run(self) -> None:
        """Send the stream. Raises UpstreamError, TimeoutError and ClientGone."""
        stream = self._stream
        if self.is_over:  # the first read was the whole stream
            self._pass_on(stream.first_chunk)
            return
        async with self._timer:
            keeps_up = self._pass_on(stream.first_chunk)
            if keeps_up is not None:
                await keeps_up
            await stream.response.pour(self)
            has_proven_end = stream.response.has_proven_end
            if not self.is_over and (block := self._pipeline.last(has_proven_end=has_proven_end)):
                keeps_up = self._pass_on(block)
                if keeps_up is not None:
                    await keeps_up

    def broken_off(self, message: str) -> None:
        """End a response that is incomplete because of `message`."""
        closing = self._stream.errors.redacted(self._stream.framing.broken(message))
        self.is_cut = not closing and self._meter.error_seen is None
        self.last.append(closing)

    async def finish(self) -> None:
        """Send the blocks kept, and end the response.

        A passthrough also sends the bytes after the terminator. The call is settled. Raises
        ClientGone.
        """
        pipeline, response = self._pipeline, self._stream.response
        if self.is_cut:
            self._writer.break_off(b"".join(self.last))
            return
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
        """Send the terminator and the bytes after it. Raises TimeoutError."""
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
        if last:  # another candidate of the response begins after the others ended
            self._timer.reschedule(self._deadline)
            block = b"".join((*last, block))
            last.clear()
        self._note_delivery()
        self.quiet_ticks = 0
        self._keeps_up = keeps_up = self._writer.write(block)
        return keeps_up

    def speak(self) -> None:
        """Send a sign of life between two events; none to a client that does not read."""
        if self._sign and not (self.last or self._meter.finished or self.waits_for_client):
            with suppress(ClientGone):  # the call is being cancelled
                self._writer.write(self._sign)


def _nothing_is_out() -> None:
    """Blocks are collected, and sent as a whole or not at all."""
