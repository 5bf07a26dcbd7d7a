"""A stream under way: from an upstream's bytes to the client's, one read at a time.

    read ▶ events (`channels/http/sse.py`) ▶ each metered and written ▶ chunk ▶ client

`StreamPipeline` does no I/O: it turns the bytes of a read into the bytes for the client. The first
chunk commits the call to its channel, so it contains something of an answer: comments and events
before that are kept back. Events after the terminator are ignored. `Relay` (`relay.py`) sends
everything from the first chunk on; the end of the call is decided in `chat.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from channels.dialects.dialect import ChatDialect
from channels.dialects.meter import Meter
from channels.dialects.text_frame import TextFrame
from channels.errors import UpstreamError, UpstreamMalformed
from channels.exact_redaction import ExactRedaction
from channels.http.sse import USUAL_BYTES_MAX, SseEvent, SseSplitter
from channels.json.lenient import UNREADABLE
from gw.calls import stream_events
from metrics.logs import EventLog

_LOG = EventLog("gw.calls")


def unreadable(error: Exception) -> UpstreamMalformed:
    """Log an exception raised while a response was read; return the error to raise instead.

    The last guard against an upstream's bytes: an exception of our readers is logged with its
    traceback and counts as an unusable response, so that another channel is tried.
    """
    _LOG.error("answer_unreadable", exc_info=True, error=type(error).__name__)
    return UpstreamMalformed(f"an answer that cannot be read: {error!r:.200}")


# Comments and events kept back until the first event of an answer. More comments are dropped,
# because a comment is no event. `response.created` repeats the tools and instructions of its
# request, and `response.in_progress` once more.
EARLY_BYTES_MAX = 256 * 1024


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
        "_frame",
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
        framing: stream_events.Framing,
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
        self._events: stream_events.EventWriter
        self._has_next = has_next
        if isinstance(framing, stream_events.TranslatedEvents):
            self._events = framing
        else:
            self._events = stream_events.PassthroughEvents(
                meter, framing, forwards_usage=forwards_usage
            )
        self._forwards_usage = forwards_usage
        self.passes_rest_on = self._events.is_verbatim
        self._has_begun = False
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._frame: TextFrame | None = None  # of an event of text that came by itself
        self._keeps_events = False  # some of the early bytes are events

    @property
    def is_over(self) -> bool:
        """Whether the terminator was read: later events are ignored."""
        return self._meter.finished and self._dialect.has_terminator

    @property
    def keeps_events(self) -> bool:
        """Whether events are kept back until the answer begins."""
        return self._keeps_events and not self._has_begun

    def release(self) -> bytes:
        """Begin the stream with the events kept back so far, if there are any; return them."""
        if not self.keeps_events:
            return b""
        self._has_begun = True
        early, self._early = self._early, []
        return b"".join(early)

    def take_piece(self, piece: bytes) -> bytes:
        """Return the chunk that a piece of the response completes: often the piece itself, or none.

        Raises UpstreamError.
        """
        try:
            piece = self._redaction.redacted(piece)
            if self._early:
                return self._written(self._fed(piece))
            if self.passes_rest_on:
                if self._frame is not None and self._splitter.is_between_events:
                    characters = self._frame.characters_in(piece)
                    if characters is not None:
                        self._meter.characters += characters
                        return piece
                datas = self._splitter.whole_events(piece)
                if datas is not None:
                    return self._passed_through(piece, datas)
            elif isinstance(events := self._events, stream_events.TranslatedEvents):
                return self._translated(events, piece)
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
        except Exception as error:  # as in `take_piece`
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
            read = meter.read_event(data)
            if not meter.take_event(read) and not self._forwards_usage:
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
        if self._frame is None and len(datas) == 1 and not self.is_over:
            self._frame = meter.frame_of(piece, read)
        return piece

    def _translated(self, events: stream_events.TranslatedEvents, piece: bytes) -> bytes:
        """Return the chunk of a piece that is translated; texts in a row are written at once."""
        if (
            events.text_run is None
            or not self._splitter.is_between_events
            or len(piece) > USUAL_BYTES_MAX
            or (run := events.text_run(piece)) is None
        ):
            return self._translated_singly(events, piece)
        start, texts = run.start, run.texts
        if not self._has_begun:  # the first event of an answer decides about the call
            start = piece.find(b"\n\n", start) + 2
            texts = texts[1:]
        chunk = self._translated_singly(events, piece[:start]) if start else b""
        written = events.write_texts(texts) if texts and self._has_begun else None
        if written is not None:
            chunk, start = chunk + written, run.end
        if start < len(piece) and not self.is_over:
            chunk += self._translated_singly(events, piece[start:])
        return chunk

    def _translated_singly(self, events: stream_events.TranslatedEvents, piece: bytes) -> bytes:
        """Return the chunk of a piece whose events are translated one by one."""
        datas = self._splitter.whole_events(piece)
        if datas is None:
            return self._written(self._fed(piece))
        if not self._has_begun:
            return self._written([SseEvent(b"", data) for data in datas])
        if len(datas) == 1:
            return events.write_data(datas[0])
        pieces = []
        for data in datas:
            pieces.append(events.write_data(data))
            if self.is_over:
                break
        return b"".join(pieces)

    def _keep_back(self, event: bytes) -> None:
        """Keep an event until there is an answer; past the bound the next begins the stream."""
        self._early.append(event)
        self._early_bytes += len(event)
        self._keeps_events = True

    @property
    def _may_begin(self) -> bool:
        """Whether events may be sent: a stream without an answer yet may have none at all."""
        meter = self._meter
        return (
            meter.has_answer or meter.error_seen is not None or self._early_bytes > EARLY_BYTES_MAX
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
        """Raise ErrorReported if there is an error among these events before any answer.

        The events are metered again, by another meter, because this is rare.
        """
        meter = self._dialect.new_meter()
        for data in datas:
            meter.take_event(meter.read_event(data))
            if meter.error_seen is not None:
                self._events.refuse_failure(data, data)
            if meter.has_answer:
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
                if self._has_begun:
                    kept.append(written)
                elif written:
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
        """Begin the stream with an event for the client, if there is an answer now.

        Raises ErrorReported for an error, unless it is passed through because no other channel can
        be tried.
        """
        if isinstance(self._events, stream_events.TranslatedEvents) or self._has_next():
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
        alone.take_event(alone.read_event(data))
        alone.end_of_body()
        self._meter.end_of_body()
        return alone.finished or self._meter.finished

    def _keep_rest(self, *rest: bytes) -> None:
        if self.passes_rest_on:
            self.rest = b"".join((self.rest, *rest))
