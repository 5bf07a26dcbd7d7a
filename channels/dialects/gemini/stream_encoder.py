"""Write canonical events as a gemini stream.

A function call is one part on this wire: it goes out once its arguments are whole. How it ended and
the usage are in the last chunk, held back until the upstream has really ended: a cut stream has no
finishReason (spec: Stream failure behaviour). As server-sent events here; the elements of the
array form are the same objects (`channels/dialects/gemini/array_stream.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.gemini.finish import write_finish
from channels.dialects.gemini.usage import write_usage
from channels.dialects.gemini.write_parts import write_part, write_thinking
from channels.json.text import dumps
from channels.translation.failures import failure_named
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Failed,
    Finished,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from channels.translation.tool_arguments import Arguments
from channels.usage import Usage

# What is sent while there is nothing to say: this protocol has no word for that.
KEEP_ALIVE = b""


@dataclass(slots=True)
class _Waiting:
    """A call whose arguments are coming."""

    began: CallBegan
    arguments: Arguments = field(default_factory=Arguments)

    def part(self) -> dict[str, Any]:
        """The part that holds the whole call."""
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


class StreamEncoder:
    """Writes one answer's stream. Made for one attempt, used from one task.

    The protocol always states usage and never when an answer was made: `include_usage` and
    `created` change nothing.
    """

    __slots__ = (
        "_calls",
        "_finished",
        "_has_open_thought",
        "_has_refusal",
        "_has_written",
        "_is_over",
        "_names",
        "_tail",
        "_usage",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        self._names: dict[str, Any] = {"modelVersion": model, "responseId": id}
        self._tail = b'],"role":"model"},"index":0}],' + dumps(self._names)[1:]
        # Taken from its beginning, which a plain dict would step over ever longer.
        self._calls: OrderedDict[int, _Waiting] = OrderedDict()
        self._finished: Finished | None = None
        self._usage: Usage | None = None
        self._has_open_thought = False
        self._has_refusal = False
        self._has_written = False
        self._is_over = False

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._has_written else "new"
        return f"<gemini.StreamEncoder {state}, {len(self._calls)} calls waiting>"

    def encode(self, event: Event) -> bytes:
        """The bytes that say the event; none where it says nothing yet, or after the end."""
        objects = self.encode_objects(event)
        if len(objects) == 1:
            return b"data: " + objects[0] + b"\r\n\r\n"
        return b"".join([b"data: " + one + b"\r\n\r\n" for one in objects])

    def encode_objects(self, event: Event) -> list[bytes]:
        """The same without the framing: the JSON of each chunk."""
        if self._is_over:
            return []
        if type(event) is TextDelta:
            return self._text(event.text)
        if type(event) is CallDelta:
            waiting = self._calls.get(event.index)
            if waiting is not None:
                waiting.arguments.add(event.arguments)
            return []
        if type(event) is ThinkingDelta:
            return self._thinking(event)
        if type(event) is CallBegan:
            self._has_open_thought = False
            whole = self._whole_calls()
            self._calls.setdefault(event.index, _Waiting(event))
            return whole
        return self._encode_rarer(event)

    def _encode_rarer(self, event: Event) -> list[bytes]:
        if isinstance(event, UsageStated):
            self._usage = event.usage
        elif isinstance(event, Finished):
            self._finished = event
        elif isinstance(event, RefusalDelta):
            self._has_refusal = True
            return self._text(event.text)
        elif isinstance(event, MediaDelta):
            self._has_open_thought = False
            return [*self._whole_calls(), self._chunk(dumps(write_part(event.media)))]
        elif isinstance(event, Failed):
            self._is_over = True
            return [_error(event)]
        elif isinstance(event, Ended):
            return self._end()
        return []

    def _chunk(self, part: bytes) -> bytes:
        self._has_written = True
        return b'{"candidates":[{"content":{"parts":[' + part + self._tail

    def _text(self, text: str) -> list[bytes]:
        self._has_open_thought = False
        if not text:
            return []
        chunk = self._chunk(b'{"text":' + dumps(text) + b"}")
        return [*self._whole_calls(), chunk] if self._calls else [chunk]

    def _thinking(self, event: ThinkingDelta) -> list[bytes]:
        thought = Thinking(
            "" if event.redacted else event.text,
            signature=event.signature,
            signer=event.signer,
            redacted=event.redacted,
        )
        if not (thought.text or thought.signature or thought.redacted):
            return []
        part = write_thinking(thought, is_thought=self._has_open_thought)
        self._has_open_thought = "thoughtSignature" not in part
        return [*self._whole_calls(), self._chunk(dumps(part))]

    def _whole_calls(self) -> list[bytes]:
        """The calls that are whole, up to the first that is not."""
        written = []
        while self._calls:
            index, waiting = next(iter(self._calls.items()))
            if not waiting.arguments.is_whole():
                break
            written.append(self._chunk(dumps(waiting.part())))
            del self._calls[index]
        return written

    def _end(self) -> list[bytes]:
        self._is_over = True
        written = [self._chunk(dumps(waiting.part())) for waiting in self._calls.values()]
        finished = self._finished
        reason, message = write_finish(
            None if finished is None else finished.reason,
            None if finished is None else finished.explanation,
            has_refusal=self._has_refusal,
        )
        candidate: dict[str, Any] = {}
        if self._has_written or reason == "STOP":
            candidate["content"] = {"parts": [{"text": ""}], "role": "model"}
        candidate["finishReason"] = reason
        candidate["index"] = 0
        if message is not None:
            candidate["finishMessage"] = message
        last: dict[str, Any] = {"candidates": [candidate]}
        if self._usage is not None:
            last["usageMetadata"] = write_usage(self._usage)
        return [*written, dumps({**last, **self._names})]


def _error(event: Failed) -> bytes:
    failure = failure_named(event.code)
    error = {
        "code": failure.http_status,
        "message": event.message,
        "status": failure.gemini_status,
    }
    return dumps({"error": error})
