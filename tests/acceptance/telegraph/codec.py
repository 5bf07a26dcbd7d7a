"""The telegraph codec: requests, whole answers and streams, to the canonical model and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from channels.dialects.token_counts import Usage
from channels.json.lenient import dumps
from channels.translation.codec import Metered
from channels.translation.events import (
    Began,
    Ended,
    Event,
    Finished,
    StreamFailed,
    TextDelta,
    UsageStated,
)
from channels.translation.losses import LossReport, report_members, spelled
from channels.translation.model import ClientProtocol, Request, Text, Turn
from tests.acceptance.telegraph.family import TELEGRAPH
from tests.acceptance.telegraph.meter import Event as UpstreamEvent

ORIGIN = ClientProtocol(
    protocol=TELEGRAPH.protocol, names={"max_tokens": "words"}, neutral={}, turns="text", parts=""
)
KEEP_ALIVE = b": still there\n\n"
# What no telegram says, of what a request may hold.
_LOST = ("tools", "temperature", "top_p", "stop", "seed", "format", "reasoning", "user")


def decode_request(body: Mapping[str, Any]) -> Request:
    return Request(
        turns=(Turn("user", (Text(body["text"]),)),),
        max_tokens=body.get("words"),
        extras={name: body[name] for name in body.keys() - {"model", "text", "words", "stream"}},
        origin=ORIGIN,
    )


def encode_request(
    request: Request, *, model: str, stream: bool, max_tokens: int | None, report: LossReport
) -> dict[str, Any]:
    """The body for the upstream: all that was said, a line each."""
    parts = [*request.system, *(part for turn in request.turns for part in turn.parts)]
    lines = [part.text for part in parts if isinstance(part, Text)]
    if len(lines) < len(parts):
        report.drop(request.origin.turns)
    for name in _LOST:
        if getattr(request, name):
            report.drop(spelled(request.origin, name))
    report_members(request, report)
    body: dict[str, Any] = {"model": model, "text": "\n".join(lines), "stream": stream}
    return body if max_tokens is None else {**body, "words": max_tokens}


def tool_names(request: Request) -> Mapping[str, str]:
    return {}


class ResponseDecoder:
    """Reads one response. Made for one attempt."""

    def __init__(self, meter: Metered) -> None:
        self._meter = meter
        self._has_begun = False

    def take_event(self, read: UpstreamEvent | None) -> list[Event]:
        """The events that one event of the wire holds. Never raises."""
        if read is None:
            return []
        events: list[Event] = [] if self._has_begun else [Began(read.id, read.model)]
        self._has_begun = True
        if read.text:
            events.append(TextDelta(read.text))
        if (usage := self._meter.shown_usage) is not None:
            events.append(UsageStated(usage))
        if read.stop:
            events += [Finished("stop"), Ended()]
        return events

    def take_body(self, read: UpstreamEvent) -> list[Event]:
        """The events of a whole answer, which is a stream of one."""
        return self.take_event(read)

    def end_stream(self) -> list[Event]:
        """The upstream has closed: nothing to say, as the end is an event."""
        return []


class StreamEncoder:
    """Writes one client's stream."""

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        self._usage: Usage | None = None

    def encode_texts(self, texts: Sequence[bytes], characters: int) -> bytes | None:
        """Return None: events of text are encoded one by one."""
        return None

    def encode_event(self, event: Event) -> bytes:
        if isinstance(event, UsageStated):
            self._usage = event.usage
        elif isinstance(event, TextDelta):
            return _written({"text": event.text})
        elif isinstance(event, StreamFailed):
            return _written({"error": {"message": event.message}})
        elif isinstance(event, Ended):
            return _written({"stop": True, **_counts(self._usage)})
        return b""


class BodyEncoder:
    """Writes one client's whole response."""

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        self._named = {"id": id, "model": model}
        self._texts: list[str] = []
        self._usage: Usage | None = None

    def encode_texts(self, texts: Sequence[bytes], characters: int) -> bytes | None:
        """Return None: events of text are encoded one by one."""
        return None

    def encode_event(self, event: Event) -> bytes:
        if isinstance(event, UsageStated):
            self._usage = event.usage
        elif isinstance(event, TextDelta):
            self._texts.append(event.text)
        elif isinstance(event, Ended):
            text = "".join(self._texts)
            return dumps({**self._named, "text": text, "stop": True, **_counts(self._usage)})
        return b""


def _counts(usage: Usage | None) -> dict[str, Any]:
    return {} if usage is None else {"counts": [usage.input_tokens, usage.output_tokens]}


def _written(event: dict[str, Any]) -> bytes:
    return b"data: " + dumps(event) + b"\n\n"
