"""From an upstream's bytes to the client's, one read at a time: split, metered, written, held back.

    read ▶ events (`channels/http/sse.py`) ▶ each metered and written (`call.py`) ▶ chunk

Nothing here waits or sends: what a read brought goes in, the bytes that the client gets for it come
out (`chat.py` reads the first of them, `stream_relay.py` all others). The first chunk
commits the call to its channel, so it has an event in it: comments that come before wait for it.
Nothing counts after the terminator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from channels.dialects.dialect import ChatDialect, Meter
from channels.errors import (
    ErrorBody,
    ErrorMembers,
    UnexpectedStatus,
    UpstreamError,
    UpstreamMalformed,
)
from channels.http.interfaces import UpstreamResponse
from channels.http.sse import SseEvent, SseSplitter
from channels.redaction import StreamRedaction
from gw.calls.call import EventWriter, Framing, PassthroughEvents, TranslatedFraming
from metrics.logs import EventLog

# The last guard before an upstream's bytes: a fault of ours in reading them is logged.
#
# Every reader of responses takes any bytes there are. Should one not, then the response is what
# cannot be used, another channel may do better, and the log says where to look.

_LOG = EventLog("gw.calls")


def unreadable(error: Exception) -> UpstreamMalformed:
    """The error that is raised instead of one that reading a response has raised."""
    _LOG.error("answer_unreadable", exc_info=True, error=type(error).__name__)
    return UpstreamMalformed(f"an answer that cannot be read: {error!r:.200}")


# Comments that are kept back until the first event comes.
EARLY_BYTES_MAX = 64 * 1024


class StreamPipeline:
    """Whole events, as many as each read brought, as the client is to have them.

    `has_next` says whether another channel can be asked in place of one whose stream begins with an
    error. Where none can, a stream that is passed through is the client's, as it came.
    `rest` is what has come behind the terminator, where that is passed on; it is not decoded.
    """

    __slots__ = (
        "_dialect",
        "_early",
        "_early_bytes",
        "_events",
        "_forwards_usage",
        "_has_begun",
        "_has_next",
        "_has_terminator",
        "_is_verbatim",
        "_meter",
        "_splitter",
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
    ) -> None:
        self.rest = b""
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
        self._is_verbatim = self._events.is_verbatim
        self._has_terminator = dialect.has_terminator
        self._has_begun = False
        self._early: list[bytes] = []
        self._early_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the terminator has been seen: nothing counts after it."""
        return self._meter.finished and self._has_terminator

    @property
    def passes_rest_on(self) -> bool:
        """Whether what an upstream sends behind its terminator is the client's: passed through."""
        return self._is_verbatim

    def take(self, piece: bytes) -> bytes:
        """The chunk that a piece of the response completes; often the piece itself, or nothing.

        Raises UpstreamError.
        """
        try:
            if self._early:
                return self._written(self._splitter.feed(piece))
            if self._is_verbatim:
                datas = self._splitter.whole_events(piece)
                if datas is not None:
                    return self._passed_through(piece, datas)
            elif self._events.needs_data_only:
                datas = self._splitter.whole_events(piece)
                if datas is not None:
                    return self._written([SseEvent(b"", data) for data in datas])
            return self._written(self._splitter.feed(piece))
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

    def _passed_through(self, piece: bytes, datas: list[bytes]) -> bytes:
        """The chunk of a piece that consists of events with these data, and of nothing else."""
        meter = self._meter
        withheld: set[int] = set()
        for index, data in enumerate(datas):
            if not meter.event(data) and not self._forwards_usage:
                withheld.add(index)
            if meter.finished and self._has_terminator:
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
        """The first event that is the client's begins the stream, if it has something to say.

        Raises ErrorReported where that is an error, and is not passed through for want of another
        channel.
        """
        if isinstance(self._events, TranslatedFraming) or self._has_next():
            self._events.refuse_failure(data, written)
        self._has_begun = bool(written)

    def _last(self) -> bytes | None:
        early, self._early = self._early, []
        rest = self._splitter.pending()
        for event in self._splitter.feed(b"\n\n"):
            if event.data is not None and self._dialect.ends(event.data):
                last = SseEvent(rest, event.data, event.event)
                written = self._events.write(last, event.data) or b""
                if not self._has_begun:
                    self._begin(event.data, written)
                self._has_begun = True
                return b"".join((*early, written))
        if self._meter.finished and self._is_verbatim and rest:
            self._has_begun = True
            return b"".join((*early, rest))
        if self._meter.finished and not self._has_begun:
            # A translated response may have nothing to say before its end, and is whole all the
            # same.
            self._has_begun = True
            return b"".join(early)
        return None

    def _keep_rest(self, *rest: bytes) -> None:
        if self._is_verbatim:
            self.rest = b"".join((self.rest, *rest))


# What one attempt can bring back: a response whole, a response as a stream, a refusal, a failure.
#
# Values only; how they come about is `chat.py` and `media.py`, what they mean for the call
# `outcome.py`.


def is_success(status: int) -> bool:
    """Whether a response stands behind this status, or else an error (4xx, 5xx).

    Raises UnexpectedStatus where it is neither: a redirect is not followed, and nothing is no
    answer (contract §7: A 2xx that cannot be used).
    """
    if 200 <= status < 300 and status != 204:
        return True
    if 400 <= status < 600:
        return False
    raise UnexpectedStatus(status)


class UpstreamRefusal(Struct, frozen=True):
    """The upstream refused the request (4xx): a response, to be passed on.

    `headers` are what the client is told of a translation. `is_rejected`: nothing was asked to be
    made yet, what it was to be made of was refused. `is_of_key`: it was for the channel's key.
    """

    status: int
    members: ErrorMembers
    retry_after: str | None
    error_body: ErrorBody | None = None
    headers: Mapping[str, str] = {}
    is_rejected: bool = False
    is_of_key: bool = False


class CompleteResponse(Struct, frozen=True):
    """A complete response, not streamed."""

    body: bytes
    meter: Meter
    headers: Mapping[str, str]


class StreamedResponse(Struct, frozen=True):
    """A stream that has begun: its first events, as bytes for the client, and where more come."""

    first_chunk: bytes
    response: UpstreamResponse
    pipeline: StreamPipeline
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    redaction: StreamRedaction


ChatResult = UpstreamRefusal | CompleteResponse | StreamedResponse
