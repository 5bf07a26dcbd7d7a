"""A native-content client's response, of canonical events: as a stream, or whole.

Both have the same parts. A function call is one part in this protocol. It always has usage and no
time of creation: `include_usage` and `created` are ignored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.gemini import finish_reasons
from channels.dialects.gemini.parts import write_part, write_thinking
from channels.dialects.gemini.usage import write_usage
from channels.json.lenient import dumps
from channels.translation import events
from channels.translation.call_arguments import Arguments
from channels.translation.error_names import failure_named
from channels.translation.event_encoder import EventEncoder
from channels.translation.model import Media, Thinking, ToolCall


@dataclass(slots=True)
class _WaitingCall:
    """A call whose arguments are incomplete."""

    began: events.CallBegan
    arguments: Arguments = field(default_factory=Arguments)

    def part(self) -> dict[str, Any]:
        """Return the part of the complete call."""
        began = self.began
        return write_part(
            ToolCall(
                began.id,
                began.name,
                self.arguments.text(),
                signature=began.signature,
                signer=began.signer,
            )
        )


class GeminiResponseEncoder(EventEncoder):
    """Makes parts of the events. Made for one attempt, used from one task."""

    __slots__ = ("_calls", "_kind", "_names")

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._names: dict[str, Any] = {"modelVersion": model, "responseId": id}
        # Items are removed from the front, which takes ever longer in a plain dict.
        self._calls: OrderedDict[int, _WaitingCall] = OrderedDict()
        self._kind = ""  # of the last part, if more of it may follow

    @abstractmethod
    def _part(self, part: dict[str, Any], *, goes_on: bool) -> bytes:
        """Add a part, or more of the last one."""

    def _text(self, text: str) -> bytes:
        return self._words("text", text)

    def _refusal(self, text: str) -> bytes:
        return self._words("refusal", text)

    def _words(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        goes_on, self._kind = self._kind == kind, kind
        return self._part({"text": text}, goes_on=goes_on)

    def _media(self, media: Media) -> bytes:
        self._kind = ""
        return self._part(write_part(media), goes_on=False)

    def _thinking(self, event: events.ThinkingDelta) -> bytes:
        thought = Thinking(
            "" if event.redacted else event.text,
            signature=event.signature,
            signer=event.signer,
            redacted=event.redacted,
        )
        if not (thought.text or thought.signature or thought.redacted):
            return b""
        is_open = self._kind == "thought"
        part = write_thinking(thought, is_thought=is_open)
        self._kind = "" if "thoughtSignature" in part else "thought"
        return self._part(part, goes_on=is_open and not thought.redacted)

    def _call_began(self, event: events.CallBegan) -> bytes:
        self._kind = ""
        self._calls.setdefault(event.index, _WaitingCall(event))
        return b""

    def _call_delta(self, event: events.CallDelta) -> bytes:
        waiting = self._calls.get(event.index)
        if waiting is not None:
            waiting.arguments.add(event.arguments)
        return b""

    def _response(self, parts: list[dict[str, Any]], *, has_content: bool) -> dict[str, Any]:
        """Return the response with these parts, or the last chunk of a stream without any."""
        finished = self._finished
        reason, message = finish_reasons.write_finish(
            None if finished is None else finished.reason,
            None if finished is None else finished.explanation,
            has_refusal=self._has_refusal,
        )
        candidate: dict[str, Any] = {}
        if has_content or reason == "STOP":
            candidate["content"] = {"parts": parts or [{"text": ""}], "role": "model"}
        candidate["finishReason"] = reason
        candidate["index"] = 0
        if message is not None:
            candidate["finishMessage"] = message
        whole: dict[str, Any] = {"candidates": [candidate]}
        if self._usage is not None:
            whole["usageMetadata"] = write_usage(self._usage)
        return {**whole, **self._names}


class GeminiBodyEncoder(GeminiResponseEncoder):
    """Encodes one whole response, at its end."""

    __slots__ = ("_parts",)

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(id=id, created=created, model=model, include_usage=include_usage)
        # Calls, and the pieces of each other part.
        self._parts: list[_WaitingCall | list[dict[str, Any]]] = []

    def _part(self, part: dict[str, Any], *, goes_on: bool) -> bytes:
        last = self._parts[-1] if self._parts else None
        if goes_on and isinstance(last, list):
            last.append(part)
        else:
            self._parts.append([part])
        return b""

    def _call_began(self, event: events.CallBegan) -> bytes:
        if event.index not in self._calls:
            super()._call_began(event)
            self._parts.append(self._calls[event.index])
        return b""

    def _end(self) -> bytes:
        parts = [
            one.part() if isinstance(one, _WaitingCall) else _joined(one) for one in self._parts
        ]
        return dumps(self._response(parts, has_content=bool(parts)))


def _joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the part that the pieces make up; the last one has the signature."""
    if len(pieces) == 1:
        return pieces[0]
    return {**pieces[-1], "text": "".join([piece["text"] for piece in pieces])}


# An empty line: the provider's Python library takes a comment for JSON, and fails.
KEEP_ALIVE = b"\n"


class GeminiStreamEncoder(GeminiResponseEncoder):
    """Encodes one response's stream.

    A call is sent once its arguments are complete. The finish reason and the usage are in the last
    chunk, sent only after the upstream has ended: a cut stream has no finishReason (reference 2.6).
    Here as server-sent events; the array form has the same objects as elements (`array_stream.py`).
    """

    __slots__ = ("_has_written", "_tail")

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(id=id, created=created, model=model, include_usage=include_usage)
        self._tail = b'],"role":"model"},"index":0}],' + dumps(self._names)[1:] + b"\r\n\r\n"
        self._has_written = False

    def _part(self, part: dict[str, Any], *, goes_on: bool) -> bytes:
        chunk = self._chunk(dumps(part))
        return self._whole_calls() + chunk if self._calls else chunk

    def _chunk(self, part: bytes) -> bytes:
        self._has_written = True
        return b'data: {"candidates":[{"content":{"parts":[' + part + self._tail

    def _call_began(self, event: events.CallBegan) -> bytes:
        whole = self._whole_calls()
        super()._call_began(event)
        return whole

    def _whole_calls(self) -> bytes:
        """Return the complete calls up to the first incomplete one."""
        written = []
        while self._calls:
            index, waiting = next(iter(self._calls.items()))
            if not waiting.arguments.is_whole():
                break
            written.append(self._chunk(dumps(waiting.part())))
            del self._calls[index]
        return b"".join(written)

    def _failed(self, event: events.StreamFailed) -> bytes:
        failure = failure_named(event.code)
        error = {
            "code": failure.http_status,
            "message": event.message,
            "status": failure.gemini_status,
        }
        return _framed({"error": error})

    def _end(self) -> bytes:
        written = [self._chunk(dumps(waiting.part())) for waiting in self._calls.values()]
        written.append(_framed(self._response([], has_content=self._has_written)))
        return b"".join(written)


def _framed(chunk: dict[str, Any]) -> bytes:
    return b"data: " + dumps(chunk) + b"\r\n\r\n"
