"""Feed a recorded stream through the splitter and the meter, cut as a test likes."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from channels.dialects.chat.meter import ChatMeter
from channels.dialects.meter import ResponseMeter
from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseEvent, SseSplitter

# Streams up to twice this length are cut at every byte.
LONG_BYTES = 300


@dataclass
class Replay:
    """What came out."""

    events: list[SseEvent]
    meter: ResponseMeter[Any]
    withheld: int
    pending: bytes

    @property
    def raw(self) -> bytes:
        """Every byte again."""
        return b"".join(event.raw for event in self.events) + self.pending

    @property
    def datas(self) -> list[bytes]:
        """The data of every event that has any."""
        return [event.data for event in self.events if event.data is not None]

    @property
    def reading(self) -> tuple[object, ...]:
        """Everything the meter has read."""
        meter = self.meter
        names = (*ResponseMeter.__annotations__, "usage", "partial_usage")
        return tuple(getattr(meter, name) for name in names)


def new_meter(name: str) -> ResponseMeter[Any]:
    """A meter of a dialect."""
    meter = CHAT_DIALECTS[name].new_meter()
    assert isinstance(meter, ResponseMeter)
    return meter


def metered(name: str, *events: object) -> ResponseMeter[Any]:
    """A meter that has read some events, as bytes or as values; it forwards them all."""
    meter = new_meter(name)
    for event in events:
        assert meter.take_event(
            meter.read_event(event if isinstance(event, bytes) else json.dumps(event).encode())
        )
    return meter


def replay(
    pieces: Iterable[bytes], *, new_meter: Callable[[], ResponseMeter[Any]] = ChatMeter
) -> Replay:
    """Split and meter `pieces` in order."""
    splitter, meter = SseSplitter(), new_meter()
    events: list[SseEvent] = []
    withheld = 0
    for piece in pieces:
        for event in splitter.feed(piece):
            events.append(event)
            if event.data is not None and not meter.take_event(meter.read_event(event.data)):
                withheld += 1
    return Replay(events, meter, withheld, splitter.pending())


def cuts(stream: bytes) -> Iterator[list[bytes]]:
    """The stream byte by byte, in pieces of some sizes, and in two pieces at every byte.

    A long stream is cut in two at every byte of its beginning and of its end only.
    """
    for size in (1, 2, 3, 7, 64):
        yield [stream[at : at + size] for at in range(0, len(stream), size)]
    for at in range(len(stream) + 1):
        if at < LONG_BYTES or at > len(stream) - LONG_BYTES:
            yield [stream[:at], stream[at:]]
