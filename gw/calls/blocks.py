"""From an upstream's bytes to the client's: events cut, metered and framed, one read at a time.

Nothing here waits or writes: what a read brought goes in, the bytes that the client gets for it
come out (`chat_upstream.py` reads the first of them, `relay.py` all others).
"""

from __future__ import annotations

from channels.dialects.dialect import ChatDialect, Meter
from channels.errors import ErrorMembers, ErrorReported, UpstreamError, UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.offload.weight import values_in
from gw.calls.framing import Framing, TranslatedFraming
from gw.calls.unreadable import unreadable

# Comments that are kept back until the first event comes.
EARLY_BYTES_MAX = 64 * 1024
# A long event is an image, or a long text. One of more values than these is nothing to translate:
# that would hold up the loop, and nothing that a model says has so many.
LONG_EVENT_BYTES = 256 * 1024
EVENT_VALUES_MAX = 50_000


class EventBlocks:
    """Whole events, as many as each read brought, without those the client did not ask for.

    The first block has an event in it: what comes before (comments that keep the connection alive)
    waits for it, because the first block commits the call to this channel.
    """

    __slots__ = (
        "_dialect",
        "_early",
        "_early_bytes",
        "_forwards_usage",
        "_framing",
        "_has_begun",
        "_has_terminator",
        "_is_verbatim",
        "_meter",
        "_splitter",
        "_translated",
        "rest",
    )

    def __init__(
        self, meter: Meter, dialect: ChatDialect, framing: Framing, *, forwards_usage: bool
    ) -> None:
        self._splitter = SseSplitter()
        self._meter = meter
        self._dialect = dialect
        self._framing = framing
        self._translated = framing if isinstance(framing, TranslatedFraming) else None
        # A translation decides by itself what a client that did not ask for usage is sent.
        self._forwards_usage = forwards_usage or self._translated is not None
        self._has_terminator = dialect.has_terminator
        # Server-sent events that leave as they came need not be taken apart.
        self._is_verbatim = framing.keeps_events and self._translated is None
        self._has_begun = False
        # What has come behind the terminator; nobody reads it. Empty where it is not passed on.
        self.rest = b""
        self._early: list[bytes] = []
        self._early_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the terminator has been seen: nothing counts after it."""
        return self._meter.finished and self._has_terminator

    @property
    def passes_rest_on(self) -> bool:
        """Whether what an upstream sends behind its terminator is the client's: natively."""
        return self._is_verbatim

    def take(self, piece: bytes) -> bytes:
        """The block that a piece of the answer completes; often the piece itself, or nothing.

        Raises UpstreamError.
        """
        try:
            return self._take(piece)
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error

    def _take(self, piece: bytes) -> bytes:
        if (self._is_verbatim or self._translated is not None) and not self._early:
            datas = self._splitter.whole_events(piece)
            if datas is not None and self._is_verbatim:
                return self._passed_on(piece, datas)
            if datas is not None:  # a translation reads nothing but the data
                return self._block([SseEvent(b"", data) for data in datas])
        return self._block(self._splitter.feed(piece))

    def last(self) -> bytes | None:
        """The block of what is left when the upstream has ended; None when nothing is.

        Some end right after their last event, without the blank line it lacks. The line is added
        to read the event, and left out of its bytes. Raises UpstreamError.
        """
        try:
            return self._last()
        except UpstreamError:
            raise
        except Exception as error:  # as in `take`
            raise unreadable(error) from error

    def _last(self) -> bytes | None:
        early, self._early = self._early, []
        rest = self._splitter.pending()
        for event in self._splitter.feed(b"\n\n"):
            if event.data is not None and self._dialect.ends(event.data):
                last = SseEvent(rest, event.data, event.event)
                written = self._metered(last, event.data) or b""
                if not written:
                    self._refuse_failure()
                self._has_begun = True
                return b"".join((*early, written))
        if self._meter.finished and self._is_verbatim and rest:
            self._has_begun = True
            return b"".join((*early, rest))
        if self._meter.finished and not self._has_begun:
            # A translated answer may have nothing to say before its end, and is whole all the same.
            self._has_begun = True
            return b"".join(early)
        return None

    def _passed_on(self, piece: bytes, datas: list[bytes]) -> bytes:
        """The block of a piece that consists of events with these data, and of nothing else."""
        meter = self._meter
        withheld: set[int] = set()
        for place, data in enumerate(datas):
            if not meter.event(data) and not self._forwards_usage:
                withheld.add(place)
            if meter.finished and self._has_terminator:
                break  # nothing counts after the terminator
        if withheld or place + 1 < len(datas):
            *raws, rest = piece.split(b"\n\n", place + 1)
            kept = [raw for place, raw in enumerate(raws) if place not in withheld]
            piece = b"".join([raw + b"\n\n" for raw in kept])
            self._put_by(rest)
        self._has_begun = self._has_begun or bool(piece)
        return piece

    def _block(self, events: list[SseEvent]) -> bytes:
        kept = self._early
        for place, event in enumerate(events):
            if event.data is None:
                kept.append(self._framing.event(event))
                self._early_bytes += len(kept[-1])
                continue
            written = self._metered(event, event.data)
            if written is not None:
                kept.append(written)
                if not self._has_begun:
                    self._has_begun = bool(kept[-1])
                    self._refuse_failure()
            if self.is_over:  # nothing counts after the terminator
                self._put_by(*[event.raw for event in events[place + 1 :]])
                self._put_by(self._splitter.pending())
                break
        if not self._has_begun:
            if self._early_bytes < EARLY_BYTES_MAX:
                return b""
            self._has_begun = True
        self._early = []
        return b"".join(kept)

    def _metered(self, event: SseEvent, data: bytes) -> bytes | None:
        """Meter an event; the client's bytes for it, None where it is not for this client.

        A translation is given what the meter has read: an event is decoded once.
        """
        meter, translated = self._meter, self._translated
        if translated is not None:
            _refuse_heavy(data)
            read = meter.read(data)
            meter.take(read)
            return translated.take(read)
        return self._framing.event(event) if meter.event(data) or self._forwards_usage else None

    def _put_by(self, *rest: bytes) -> None:
        if self._is_verbatim:
            self.rest = b"".join((self.rest, *rest))

    def _refuse_failure(self) -> None:
        """A translated stream that begins with an error has sent nothing: try elsewhere.

        What the upstream still says of it, such as its usage, concerns nobody then.
        """
        if self._translated is None or self._has_begun:
            return
        error = self._translated.failed or self._meter.error_seen
        if error is not None:
            raise ErrorReported(ErrorMembers(error.message))


def _refuse_heavy(data: bytes) -> None:
    """Raise UpstreamMalformed for an event of too many values."""
    if len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX:
        raise UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")
