"""Read a telegraph answer as it passes: usage, characters, how it ended."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from channels.dialects.meter import ResponseMeter
from channels.dialects.token_counts import TOKENS_MAX, Usage
from channels.errors import UpstreamMalformed
from channels.json.lenient import NULL, UNREADABLE

_Count = Annotated[int, Meta(ge=0, le=TOKENS_MAX)]


class Event(Struct, gc=False):
    """One event of a stream, or a whole answer; `counts` are the words in and out."""

    text: str = ""
    stop: bool = False
    counts: tuple[_Count, _Count] | None = None
    id: str | None = None
    model: str | None = None
    error: msgspec.Raw = NULL

    @property
    def usage(self) -> Usage | None:
        return None if self.counts is None else Usage(*self.counts)


decode_event = msgspec.json.Decoder(Event).decode


class TelegraphMeter(ResponseMeter[Event]):
    """Follows one answer."""

    _usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        return self._usage

    @staticmethod
    def read_event(data: bytes) -> Event | None:
        """What one event's data hold; None where they cannot be read."""
        try:
            return decode_event(data)
        except UNREADABLE:
            return None

    def take_event(self, one: Event | None) -> bool:
        """Meter what was read of an event. True, as every event is forwarded."""
        if one is None:
            self.malformed_events += 1
            return True
        self.characters += len(one.text)
        self._usage = one.usage or self._usage
        self._note_names(one.id, one.model)
        self._note_error(one.error)
        if one.stop:
            self.finished, self.finish_reason = True, "stop"
        return True

    def take_body(self, body: bytes) -> Event:
        """Meter and return a whole answer. Raises UpstreamMalformed."""
        event = self.read_event(body)
        if event is None:
            raise UpstreamMalformed("not a telegram")
        self.take_event(event)
        self.finished = True
        return event


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    event = TelegraphMeter.read_event(data)
    return event is not None and event.stop
