"""Whole native-content answers, both ways.

A whole answer has the shape of a stream's chunk, and is read as a stream of one: so both say the
same. Of several candidates the first is read: more are never asked for in a translation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from channels.errors import UpstreamMalformed
from channels.translators.canonical import (
    Answer,
    Began,
    CallBegan,
    CallDelta,
    Event,
    Failed,
    Finished,
    MediaDelta,
    Part,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from channels.translators.json_text import dumps
from channels.translators.native.chunk import read_chunks
from channels.translators.native.finish import write_finish
from channels.translators.native.stream_decoder import StreamDecoder
from channels.translators.native.usage import write_usage
from channels.translators.native.written import write_part
from channels.usage import Usage


def decode_answer(body: bytes) -> Answer:
    """Read a whole answer. Raises UpstreamMalformed when nothing is answered in it."""
    decoder = StreamDecoder()
    events = decoder.take(read_chunks(body))
    failed = next((event for event in events if isinstance(event, Failed)), None)
    if failed is not None:
        raise UpstreamMalformed("an error where an answer was promised", failed.code)
    ending = decoder.end()
    answer = folded([*events, *ending])
    if answer is None or not (answer.parts or ending):
        raise UpstreamMalformed("an answer without a candidate")
    return answer


def folded(events: Iterable[Event]) -> Answer | None:
    """The answer that a stream's events make up; None where it never began."""
    began: Began | None = None
    finished: Finished | None = None
    usage: Usage | None = None
    parts: list[Part] = []
    calls: dict[int, int] = {}  # where the call of each index stands
    for event in events:
        if isinstance(event, Began):
            began = event
        elif isinstance(event, Finished):
            finished = event
        elif isinstance(event, UsageStated):
            usage = event.usage
        elif isinstance(event, CallBegan):
            calls[event.index] = len(parts)
            parts.append(
                ToolCall(event.id, event.name, "", signature=event.signature, signer=event.signer)
            )
        elif isinstance(event, CallDelta):
            _extend_call(parts, calls[event.index], event.arguments)
        else:
            _extend(parts, event)
    if began is None:
        return None
    return Answer(
        id=began.id,
        model=began.model,
        parts=tuple(parts),
        finish=None if finished is None else finished.reason,
        usage=usage,
        explanation=None if finished is None else finished.explanation,
    )


def _extend_call(parts: list[Part], place: int, arguments: str) -> None:
    call = parts[place]
    assert isinstance(call, ToolCall), call
    parts[place] = ToolCall(
        call.id,
        call.name,
        call.arguments + arguments,
        signature=call.signature,
        signer=call.signer,
    )


def _extend(parts: list[Part], event: Event) -> None:
    """Add to the last part what goes on with it; a thought that is signed is closed."""
    last = parts[-1] if parts else None
    if isinstance(event, TextDelta):
        if isinstance(last, Text):
            parts[-1] = Text(last.text + event.text)
        else:
            parts.append(Text(event.text))
    elif isinstance(event, RefusalDelta):
        parts.append(Refusal(event.text))
    elif isinstance(event, MediaDelta):
        parts.append(event.media)
    elif isinstance(event, ThinkingDelta):
        text = event.text
        if isinstance(last, Thinking) and last.signature is None:
            text = last.text + text
            parts.pop()
        parts.append(Thinking(text, signature=event.signature, signer=event.signer))


def encode_answer(answer: Answer, *, id: str, created: int, model: str) -> bytes:
    """Write a whole answer under this id; the protocol does not say when it was made."""
    has_refusal = any(isinstance(part, Refusal) for part in answer.parts)
    reason, message = write_finish(answer.finish, answer.explanation, has_refusal=has_refusal)
    candidate: dict[str, Any] = {}
    if answer.parts or reason == "STOP":
        parts = [write_part(part) for part in answer.parts] or [{"text": ""}]
        candidate["content"] = {"parts": parts, "role": "model"}
    candidate["finishReason"] = reason
    candidate["index"] = 0
    if message is not None:
        candidate["finishMessage"] = message
    whole: dict[str, Any] = {"candidates": [candidate]}
    if answer.usage is not None:
        whole["usageMetadata"] = write_usage(answer.usage)
    whole["modelVersion"] = model
    whole["responseId"] = id
    return dumps(whole)
