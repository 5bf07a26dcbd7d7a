"""From an upstream's bytes to the client's: events cut, metered and framed, one read at a time.

Nothing here waits or writes: what a read brought goes in, the bytes that the client gets for it
come out (`attempt.py` reads the first of them, `relay.py` all others).
"""

from __future__ import annotations

from channels.protocols.dialect import Meter
from channels.wire.sse import SseEvent, SseSplitter
from gw.calls.answers import UpstreamFailed
from gw.calls.call import Framing
from gw.calls.speech import Speech, TranslatedFraming

# Comments that are kept back until the first event comes.
EARLY_BYTES_MAX = 64 * 1024


class EventBlocks:
    """Whole events, as many as each read brought, without those the client did not ask for.

    The first block has an event in it: what comes before (comments that keep the connection alive)
    waits for it, because the first block commits the call to this channel.
    """

    __slots__ = (
        "_dialect",
        "_early",
        "_forwards_usage",
        "_framing",
        "_has_begun",
        "_has_terminator",
        "_is_verbatim",
        "_meter",
        "_splitter",
    )

    def __init__(
        self, meter: Meter, speech: Speech, framing: Framing, *, forwards_usage: bool
    ) -> None:
        self._splitter = SseSplitter()
        self._meter = meter
        self._dialect = speech.dialect
        self._framing = framing
        # A translation decides by itself what a client that did not ask for usage is sent.
        self._forwards_usage = forwards_usage or speech.translated is not None
        self._has_terminator = speech.dialect.has_terminator
        # Server-sent events that leave as they came need not be taken apart.
        self._is_verbatim = framing.keeps_events and speech.translated is None
        self._has_begun = False
        self._early: list[bytes] = []

    @property
    def is_over(self) -> bool:
        """Whether the terminator has been seen: nothing counts after it."""
        return self._meter.finished and self._has_terminator

    def take(self, piece: bytes) -> bytes:
        """The block that a piece of the answer completes; often the piece itself, or nothing.

        Raises UpstreamError.
        """
        if self._is_verbatim and not self._early:
            datas = self._splitter.whole_events(piece)
            if datas is not None:
                return self._passed_on(piece, datas)
        return self._block(self._splitter.feed(piece))

    def last(self) -> bytes | None:
        """The block of what is left when the upstream has ended; None when nothing is.

        Some end right after their last event, without the blank line it lacks. The line is added
        to read the event, and left out of its bytes.
        """
        early, self._early = self._early, []
        rest = self._splitter.pending()
        for event in self._splitter.feed(b"\n\n"):
            if event.data is not None and self._dialect.ends(event.data):
                self._has_begun = True
                self._meter.event(event.data)
                event = SseEvent(rest, event.data, event.event)
                return b"".join((*early, self._framing.event(event)))
        if self._meter.finished and not self._has_begun:
            # A translated answer may have nothing to say before its end, and is whole all the same.
            self._has_begun = True
            return b"".join(early)
        return None

    def _passed_on(self, piece: bytes, datas: list[bytes]) -> bytes:
        """The block of a piece that consists of events with these data, and of nothing else."""
        meter = self._meter
        withheld: list[int] = []
        for place, data in enumerate(datas):
            if not meter.event(data) and not self._forwards_usage:
                withheld.append(place)
            if meter.finished and self._has_terminator:
                break  # nothing counts after the terminator
        if withheld or place + 1 < len(datas):
            raws = piece.split(b"\n\n", place + 1)[: place + 1]
            kept = [raw for place, raw in enumerate(raws) if place not in withheld]
            piece = b"".join([raw + b"\n\n" for raw in kept])
        self._has_begun = self._has_begun or bool(piece)
        return piece

    def _block(self, events: list[SseEvent]) -> bytes:
        kept = self._early
        for event in events:
            if event.data is None:
                kept.append(self._framing.event(event))
            elif self._meter.event(event.data) or self._forwards_usage:
                kept.append(self._framing.event(event))
                self._refuse_failure()
                self._has_begun = self._has_begun or bool(kept[-1])
            if self.is_over:
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
