"""How the events of a stream reach the client: as they came, or translated.

A channel that speaks the client's protocol has its events passed on as they are. Otherwise a
translation (`channels/translation`) reads and writes beside the meter: usage is always metered as
the upstream states it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from channels.dialects.dialect import Meter
from channels.http.sse import SseEvent, SseSplitter
from channels.translation.model import Failed
from channels.translation.session import TranslatedStream

# A client that is sent nothing for so long is told that the answer is still coming.
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
        """The bytes of one event; none where the form has no place for it."""

    def end(self) -> bytes:
        """The bytes that end a complete answer."""

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


class TranslatedFraming:
    """The upstream's events as the client's protocol has them, in the form the client asked for."""

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

    @property
    def failed(self) -> Failed | None:
        """The error an upstream has reported, if it has."""
        return self._stream.failed

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

        Its own comments and pings, and thoughts that the client's protocol has no place for, say
        nothing to the client; what stands between them cuts connections that are silent.
        """
        if self._monotonic() - self._spoke < SILENCE_SECONDS:
            return b""
        return self._stream.keep_alive

    def end(self) -> bytes:
        """The client's end of a complete answer; once, and none after an error."""
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
