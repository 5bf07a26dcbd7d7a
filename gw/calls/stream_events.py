"""Each event of a stream is metered, and passed through or translated.

Events of a channel that speaks the client's protocol are passed through. Otherwise a translation
(`channels/translation`) writes them; usage is always metered as the upstream states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from channels.dialects.error_body import error_reported
from channels.dialects.meter import Meter
from channels.errors import ErrorMembers, ErrorReported, UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.json.weight import EVENT_VALUES_MAX, LONG_EVENT_BYTES, is_heavy_event
from channels.translation.session import TranslatedStream


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

        `message` is the reason, for the client (reference 2.6).
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
    """

    @property
    def is_verbatim(self) -> bool: ...

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

    def __init__(self, meter: Meter, framing: Framing, *, forwards_usage: bool) -> None:
        self._meter = meter
        self._framing = framing
        self._forwards_usage = forwards_usage
        self.is_verbatim = framing.keeps_events

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        if not self._meter.reads_any_size and is_heavy_event(data):
            raise too_heavy()
        is_clients = self._meter.take_event(self._meter.read_event(data)) or self._forwards_usage
        return self._framing.event(event) if is_clients else None

    def comment(self, event: SseEvent) -> bytes:
        return self._framing.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. An error after another event is passed through."""
        if self._meter.error_seen is not None:
            raise error_reported(data)


class TranslatedEvents:
    """Translates the upstream's events to the client's protocol, in the form the client requested.

    It is the response's framing as well: its `end` and `broken` close the response. `text_run`
    finds texts that `write_texts` takes (`channels/translation/codec.py`); None if it takes none.

    The translation takes the events decoded by the meter, so that each is decoded once; it also
    decides whether the client receives the usage.
    """

    is_verbatim = False

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
        self._splitter = None if framing.keeps_events else SseSplitter()
        self._meter = meter
        self._has_terminator = has_terminator
        self._has_ended = False
        self.content_type = framing.content_type
        self.keeps_events = framing.keeps_events
        self.text_run = stream.text_run if framing.keeps_events else None

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        return self.write_data(data)

    def write_data(self, data: bytes) -> bytes:
        """Meter an event with these data and return the client's bytes; as `write`."""
        if len(data) > LONG_EVENT_BYTES and is_heavy_event(data):
            raise too_heavy()
        meter = self._meter
        read = meter.read_event(data)
        meter.take_event(read)
        written = self._stream.take_event(read)
        if self._splitter is not None:
            written = self._framed(written)
        if meter.finished and self._has_terminator:
            return written + self.end()
        return written

    def write_texts(self, texts: Sequence[bytes]) -> bytes | None:
        """Meter texts of a run and return the client's bytes.

        None, and nothing happens, if they have to be written one by one.
        """
        taken = self._stream.take_texts(texts)
        if taken is None:
            return None
        written, characters = taken
        self._meter.characters += characters
        return written

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

    def end(self) -> bytes:
        """Return the end of a complete response; once, and none after an error."""
        if self._has_ended or self._stream.failed is not None:
            return b""
        self._has_ended = True
        return self._framed(self._stream.end_stream()) + self._framing.end()

    def broken(self, message: str) -> bytes:
        """Return the bytes that close a failed stream; none where it just ends."""
        return self._framed(self._stream.broken(message))

    def _framed(self, written: bytes) -> bytes:
        """Put the events that a translation wrote into the client's form."""
        if not written or self._splitter is None:
            return written
        return b"".join(map(self._framing.event, self._splitter.feed(written)))


def too_heavy() -> UpstreamMalformed:
    return UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")
