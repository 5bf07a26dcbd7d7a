"""What becomes of one event of a stream: it is metered, and written as the client is to have it.

Usage is metered as the upstream states it, whatever the client is sent.
"""

from __future__ import annotations

from typing import Protocol

from channels.dialects.dialect import Meter
from channels.errors import ErrorMembers, ErrorReported, UpstreamMalformed
from channels.http.sse import SseEvent
from channels.offload.weight import values_in
from gw.calls.framing import Framing, TranslatedFraming

# A long event is an image, or a long text. One of more values than these is nothing to translate:
# that would hold up the loop, and nothing that a model says has so many.
LONG_EVENT_BYTES = 256 * 1024
EVENT_VALUES_MAX = 50_000


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

    def refuse_failure(self) -> None:
        """Raise ErrorReported for a stream that has begun with an error of which nothing is out."""


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

    def refuse_failure(self) -> None:
        """An error is the client's, as it came."""


class TranslatedEvents:
    """Events in the client's protocol; the translation itself decides who is sent the usage.

    It is given what the meter has read: an event is decoded once.
    """

    is_verbatim = False
    needs_data_only = True

    def __init__(self, meter: Meter, framing: TranslatedFraming) -> None:
        self._meter = meter
        self._framing = framing

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        if len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX:
            raise UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")
        read = self._meter.read(data)
        self._meter.take(read)
        return self._framing.take(read)

    def comment(self, event: SseEvent) -> bytes:
        return self._framing.event(event)

    def refuse_failure(self) -> None:
        """Another channel is tried: what the upstream still says, its usage too, is nobody's."""
        error = self._framing.failed or self._meter.error_seen
        if error is not None:
            raise ErrorReported(ErrorMembers(error.message))
