"""What becomes of an event of a stream: metered, and written as it came or translated.

A channel that speaks the client's protocol has its events passed on as they are. Otherwise a
translation (`channels/translation`) reads and writes beside the meter: usage is always metered as
the upstream states it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from channels.dialects.dialect import Meter
from channels.dialects.error_body import error_reported
from channels.errors import ErrorMembers, ErrorReported, UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.offload.weight import values_in
from channels.translation.session import TranslatedStream

# A client that is sent nothing for so long is told that the response is still coming.
SILENCE_SECONDS = 10.0
# A long event is an image, or a long text. One of more values than these is nothing to translate:
# that would hold up the loop, and nothing that a model says has so many.
LONG_EVENT_BYTES = 256 * 1024
EVENT_VALUES_MAX = 50_000


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

        `message` says why, to the client (spec: Stream failure behaviour 1, 3).
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
        if len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX:
            raise UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")
        read = self._meter.read(data)
        self._meter.take(read)
        return self.take(read)

    def comment(self, event: SseEvent) -> bytes:
        """See EventWriter."""
        return self.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. What the upstream still says, its usage too, is dropped."""
        error = self._stream.failed or self._meter.error_seen
        if error is not None and not written:
            status = error_reported(data).status
            raise ErrorReported(ErrorMembers(error.message), status=status)

    def event(self, event: SseEvent) -> bytes:
        """What a client gets for an event that says nothing, such as a comment."""
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
        """What keeps the connection alive, where the upstream only says that it is still there.

        Its own comments and pings, and thoughts that the client's protocol cannot carry, say
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
