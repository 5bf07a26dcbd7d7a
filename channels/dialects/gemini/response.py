"""Whole gemini responses, both ways.

A whole response has the shape of a stream's chunk, and is read as a stream of one: so both say the
same. Of several candidates the first is read: more are never asked for in a translation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from channels.dialects.gemini.chunk import read_chunks
from channels.dialects.gemini.finish import write_finish
from channels.dialects.gemini.stream_decoder import StreamDecoder
from channels.dialects.gemini.usage import write_usage
from channels.dialects.gemini.write_parts import write_part
from channels.errors import UpstreamMalformed
from channels.json.text import dumps
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Event,
    Finished,
    MediaDelta,
    Part,
    Refusal,
    RefusalDelta,
    Response,
    StreamFailed,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from channels.usage import Usage


def decode_response(body: bytes) -> Response:
    """Read a whole response. Raises UpstreamMalformed when nothing is answered in it."""
    decoder = StreamDecoder()
    events = decoder.take(read_chunks(body))
    failed = next((event for event in events if isinstance(event, StreamFailed)), None)
    if failed is not None:
        raise UpstreamMalformed("an error where an answer was promised", failed.code)
    ending = decoder.end()
    response = folded([*events, *ending])
    if response is None or not (response.parts or ending):
        raise UpstreamMalformed("an answer without a candidate")
    return response


def folded(events: Iterable[Event]) -> Response | None:
    """The response that a stream's events make up; None where it never began."""
    began: Began | None = None
    finished: Finished | None = None
    usage: Usage | None = None
    parts: list[_Gathered] = []
    calls: dict[int, _Gathered] = {}  # by their index
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
    """A part as its events make it up: what it is, and the pieces of its text or arguments."""

    part: Part
    texts: list[str] = field(default_factory=list)

    def whole(self) -> Part:
        """The part with all its pieces."""
        part = self.part
        if isinstance(part, ToolCall):
            return replace(part, arguments="".join(self.texts))
        if isinstance(part, Text | Thinking):
            return replace(part, text="".join(self.texts))
        return part


def _extend(parts: list[_Gathered], event: Event) -> None:
    """Add to the last part what goes on with it; a thought that is signed is closed."""
    last = parts[-1].part if parts else None
    if isinstance(event, TextDelta):
        if not isinstance(last, Text):
            parts.append(_Gathered(Text("")))
        parts[-1].texts.append(event.text)
    elif isinstance(event, RefusalDelta):
        parts.append(_Gathered(Refusal(event.text)))
    elif isinstance(event, MediaDelta):
        parts.append(_Gathered(event.media))
    elif isinstance(event, ThinkingDelta):
        if not (isinstance(last, Thinking) and last.signature is None):
            parts.append(_Gathered(Thinking("")))
        thought = parts[-1]
        thought.part = Thinking("", signature=event.signature, signer=event.signer)
        thought.texts.append(event.text)


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Write a whole response under this id; the protocol does not say when it was made."""
    has_refusal = any(isinstance(part, Refusal) for part in response.parts)
    reason, message = write_finish(response.finish, response.explanation, has_refusal=has_refusal)
    candidate: dict[str, Any] = {}
    if response.parts or reason == "STOP":
        parts = [write_part(part) for part in response.parts] or [{"text": ""}]
        candidate["content"] = {"parts": parts, "role": "model"}
    candidate["finishReason"] = reason
    candidate["index"] = 0
    if message is not None:
        candidate["finishMessage"] = message
    whole: dict[str, Any] = {"candidates": [candidate]}
    if response.usage is not None:
        whole["usageMetadata"] = write_usage(response.usage)
    whole["modelVersion"] = model
    whole["responseId"] = id
    return dumps(whole)
