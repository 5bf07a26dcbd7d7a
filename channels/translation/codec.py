"""The interfaces and common parts of codecs, which map a dialect to the canonical model and back.

For requests, whole responses and streams (`model.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as Interface

from msgspec.structs import replace

from channels.dialects.faults import described
from channels.dialects.token_counts import Usage
from channels.errors import InvalidRequest
from channels.translation.model import (
    EMPTY,
    Began,
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    Part,
    Refusal,
    RefusalDelta,
    Request,
    Response,
    StreamFailed,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Turn,
    UsageStated,
)
from channels.translation.tool_calls import LossReport


class StreamDecoder(Interface):
    """Decodes the events of an upstream's stream, given as the dialect's meter has read them.

    `take` and `end` never raise; see `model.Ended`.
    """

    def take(self, read: Any) -> list[Event]: ...

    def end(self) -> list[Event]: ...


class StreamEncoder(Interface):
    """Encodes a client's stream. Without `Ended` there is no terminator and no finish reason."""

    def encode(self, event: Event) -> bytes: ...


class MakesEncoder(Interface):
    """Makes the encoder of one stream; `created` is a Unix second."""

    def __call__(
        self, *, id: str, created: int, model: str, include_usage: bool
    ) -> StreamEncoder: ...


class EncodesRequest(Interface):
    """Returns the body for an upstream of the protocol, which may have further options.

    It reports what it could not express, and raises InvalidRequest if the conversation would change
    without it.
    """

    def __call__(
        self,
        request: Request,
        *,
        model: str,
        stream: bool,
        max_tokens: int | None,
        report: LossReport,
    ) -> dict[str, Any]: ...


class EncodesResponse(Interface):
    """Returns a whole response for a client of the protocol. Raises nothing."""

    def __call__(self, response: Response, /, *, id: str, created: int, model: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codec:
    """A protocol on either side of a translation, streaming or not.

    `decode_request` raises InvalidRequest, `decode_response` UpstreamMalformed. `tool_names` maps
    the names that `encode_request` changes to the client's own. `keep_alive` is sent to a client
    while there is nothing else to send: what its readers skip.
    """

    decode_request: Callable[[Mapping[str, Any]], Request]
    encode_request: EncodesRequest
    tool_names: Callable[[Request], Mapping[str, str]]
    decode_response: Callable[[bytes], Response]
    encode_response: EncodesResponse
    new_decoder: Callable[[], StreamDecoder]
    new_encoder: MakesEncoder
    keep_alive: bytes


# The common part of the dialects' stream encoders: which event is encoded when.
#
# Lifecycle events, the finish reason and the usage are kept: no byte is sent before there is
# content, so that another channel may still be tried, and no end before the upstream has ended
# (spec: Stream failure behaviour). Each dialect has its own encoder.


class EventEncoder(ABC):
    """Encodes one response's stream. Made for one attempt, used from one task.

    `_finished` and `_usage` are kept for the end; `_has_refusal`: the model refused in its own
    text.
    """

    __slots__ = ("_finished", "_has_refusal", "_is_over", "_usage")

    def __init__(self) -> None:
        self._finished: Finished | None = None
        self._has_refusal = False
        self._usage: Usage | None = None
        self._is_over = False

    def encode(self, event: Event) -> bytes:
        """Return the bytes of the event; empty if it is kept, or after the end."""
        if self._is_over:
            return b""
        if type(event) is TextDelta:
            return self._text(event.text)
        if type(event) is CallDelta:
            return self._call_delta(event)
        if type(event) is ThinkingDelta:
            return self._thinking(event)
        if type(event) is CallBegan:
            return self._call_began(event)
        return self._encode_rarer(event)

    def _encode_rarer(self, event: Event) -> bytes:
        if isinstance(event, UsageStated):
            self._usage = event.usage
        elif isinstance(event, Finished):
            self._finished = event
        elif isinstance(event, RefusalDelta):
            self._has_refusal = True
            return self._refusal(event.text)
        elif isinstance(event, MediaDelta):
            return self._media(event.media)
        elif isinstance(event, Citation):
            return self._citation(event)
        elif isinstance(event, StreamFailed):
            self._is_over = True
            return self._failed(event)
        elif isinstance(event, Ended):
            self._is_over = True
            return self._end()
        return b""

    @abstractmethod
    def _text(self, text: str) -> bytes: ...

    @abstractmethod
    def _refusal(self, text: str) -> bytes: ...

    @abstractmethod
    def _thinking(self, event: ThinkingDelta) -> bytes: ...

    @abstractmethod
    def _media(self, media: Media) -> bytes: ...

    @abstractmethod
    def _call_began(self, event: CallBegan) -> bytes: ...

    @abstractmethod
    def _call_delta(self, event: CallDelta) -> bytes: ...

    def _citation(self, citation: Citation) -> bytes:
        """Return nothing, for protocols without a member for sources."""
        return b""

    @abstractmethod
    def _failed(self, event: StreamFailed) -> bytes: ...

    @abstractmethod
    def _end(self) -> bytes: ...


# Folds a stream's events, for dialects whose whole responses are decoded as streams.


def folded(events: Iterable[Event]) -> Response | None:
    """Return the response that a stream's events make up; None if it never began."""
    began: Began | None = None
    finished: Finished | None = None
    usage: Usage | None = None
    parts: list[_Gathered] = []
    calls: dict[int, _Gathered] = {}  # by index
    for event in events:
        if isinstance(event, Began):
            began = event
        elif isinstance(event, Finished):
            finished = event
        elif isinstance(event, UsageStated):
            usage = event.usage
        elif isinstance(event, CallBegan):
            call = ToolCall(
                event.id, event.name, "", signature=event.signature, signer=event.signer
            )
            calls[event.index] = _Gathered(call)
            parts.append(calls[event.index])
        elif isinstance(event, CallDelta):
            calls[event.index].texts.append(event.arguments)
        else:
            _extend(parts, event)
    if began is None:
        return None
    return Response(
        id=began.id,
        model=began.model,
        parts=tuple([part.whole() for part in parts]),
        finish=None if finished is None else finished.reason,
        usage=usage,
        explanation=None if finished is None else finished.explanation,
    )


@dataclass(slots=True)
class _Gathered:
    """A part under construction: its kind, and the pieces of its text or arguments."""

    part: Part
    texts: list[str] = field(default_factory=list)

    def whole(self) -> Part:
        """Return the part with all its pieces."""
        part = self.part
        if isinstance(part, ToolCall):
            return replace(part, arguments="".join(self.texts))
        if isinstance(part, Text | Thinking | Refusal):
            return replace(part, text="".join(self.texts))
        return part


def _extend(parts: list[_Gathered], event: Event) -> None:
    """Add to the last part what continues it; a signed thought is complete."""
    last = parts[-1].part if parts else None
    if isinstance(event, TextDelta):
        if not isinstance(last, Text):
            parts.append(_Gathered(Text("")))
        parts[-1].texts.append(event.text)
    elif isinstance(event, RefusalDelta):
        if not isinstance(last, Refusal):
            parts.append(_Gathered(Refusal("")))
        parts[-1].texts.append(event.text)
    elif isinstance(event, MediaDelta):
        parts.append(_Gathered(event.media))
    elif isinstance(event, ThinkingDelta) and event.redacted:
        parts.append(_Gathered(Thinking("", redacted=event.redacted, signer=event.signer)))
    elif isinstance(event, ThinkingDelta):
        if not (isinstance(last, Thinking) and not (last.signature or last.redacted)):
            parts.append(_Gathered(Thinking("")))
        thought = parts[-1]
        thought.part = Thinking("", signature=event.signature, signer=event.signer)
        thought.texts.append(event.text)


# Typed access to the members of a client's JSON object; unread members are left over.
#
# The protocols' parsers have checked the members that they use (`channels/dialects/*/request.py`);
# a translation reads more, and a wrong type found here is the client's error as well.


class Members:
    """One object of a request. `location` is its dotted path, empty for the body itself.

    A null member counts as absent. Every reader raises InvalidRequest for a value of another type.
    """

    __slots__ = ("_read", "_value", "location")

    def __init__(self, value: Mapping[str, Any], location: str = "") -> None:
        self._value = value
        self._read: set[str] = set()
        self.location = location

    def __repr__(self) -> str:
        return f"<Members of {self.location or 'the body'}: {', '.join(self._value)}>"

    def path(self, name: str) -> str:
        """Return a member's dotted path."""
        return f"{self.location}.{name}" if self.location else name

    def whole(self) -> Mapping[str, Any]:
        """Return the object as received."""
        return self._value

    def any(self, name: str) -> Any:
        """Return a member of any type."""
        self._read.add(name)
        return self._value.get(name)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def number(self, name: str) -> float | None:
        """Return a number; integers stay integers."""
        value = self.any(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number", value)
        return value

    def integer(self, name: str) -> int | None:
        """Return an integer."""
        value = self.number(name)
        if value is None or isinstance(value, int):
            return value
        if value.is_integer():
            return int(value)
        raise self._wrong(name, "an integer", value)

    def boolean(self, name: str) -> bool | None:
        """Return a boolean."""
        value = self.any(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "a boolean", value)
        return value

    def array(self, name: str) -> list[Any]:
        """Return an array; empty without one."""
        value = self.any(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "an array", value)
        return value

    def object(self, name: str) -> Members | None:
        """Return an object's members."""
        value = self.any(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return Members(value, self.path(name))

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """Return an object unchanged, such as a schema."""
        value = self.any(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return value

    def objects(self, name: str) -> list[Members]:
        """Return an array of objects, each with its index in its path."""
        found = []
        for index, value in enumerate(self.array(name)):
            if not isinstance(value, Mapping):
                raise self._wrong(f"{name}[{index}]", "an object", value)
            found.append(Members(value, f"{self.path(name)}[{index}]"))
        return found

    def rest(self) -> dict[str, Any]:
        """Return the unread members that are not null."""
        return {
            name: value
            for name, value in self._value.items()
            if name not in self._read and value is not None
        }

    def _wrong(self, name: str, expected: str, value: Any) -> InvalidRequest:
        path = self.path(name)
        return InvalidRequest(f"{path}: expected {expected}, found {described(value)}.", path)


def merged(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Merge adjacent turns of the same role, and drop empty turns.

    Turns with different participants' names are merged, too; the merged turn has their common name,
    or none.
    """
    kept: list[tuple[Turn, list[Part]]] = []
    for turn in turns:
        if not turn.parts:
            continue
        if kept and kept[-1][0].role == turn.role:
            before, parts = kept[-1]
            parts.extend(turn.parts)
            if before.name != turn.name:
                kept[-1] = (Turn(before.role, ()), parts)
        else:
            kept.append((turn, list(turn.parts)))
    return tuple(
        Turn(turn.role, _results_first(_without_empty(parts)), turn.name) for turn, parts in kept
    )


def _without_empty(parts: list[Part]) -> list[Part]:
    """Drop the empty messages of a turn if it has other parts."""
    if len(parts) == 1 or EMPTY not in parts:
        return parts
    return [part for part in parts if part != EMPTY] or [EMPTY]


def _results_first(parts: list[Part]) -> tuple[Part, ...]:
    results = [part for part in parts if isinstance(part, ToolResult)]
    if not results:
        return tuple(parts)
    return (*results, *(part for part in parts if not isinstance(part, ToolResult)))
