"""Gemini streams, to canonical events and back.

The protocol has no terminator: a stream with a finish reason, or with a refused prompt, is complete
when the upstream ends it. Until then more may follow, such as the usage, so the finish reason is
emitted at the end. No input raises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.gemini import finish_reasons
from channels.dialects.gemini.decode import text_of_code
from channels.dialects.gemini.events import Candidate, ChunkPart, GeminiChunk, object_of
from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.parts import write_part, write_thinking
from channels.dialects.gemini.tool_calls import GeminiToolCallReader
from channels.dialects.gemini.usage import GeminiUsageReader, UsageMetadata, write_usage
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.families import GEMINI
from channels.json.lenient import NULL, dumps, read_loosely
from channels.translation.call_arguments import Arguments
from channels.translation.error_names import failure_in, failure_named
from channels.translation.event_encoder import EventEncoder
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    MediaDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.model import Media, Thinking, ToolCall


class GeminiStreamDecoder:
    """Decodes one stream, for one attempt and one task."""

    __slots__ = (
        "_began",
        "_blocked",
        "_calls",
        "_finish",
        "_has_output",
        "_is_over",
        "_last_usage",
        "_stated",
    )

    def __init__(self) -> None:
        self._calls = GeminiToolCallReader()
        self._began = False
        self._has_output = False
        self._is_over = False
        self._finish: tuple[str, str | None] | None = None  # reason and message
        self._blocked: tuple[str, str | None] | None = None
        self._stated = GeminiUsageReader()
        self._last_usage: Usage | None = None  # emitted last

    def __repr__(self) -> str:
        state = "over" if self._is_over else "began" if self._began else "new"
        return f"<GeminiStreamDecoder {state}, {self._calls}>"

    def take_event(self, read: Sequence[GeminiChunk] | None) -> list[Event]:
        """Return the canonical events of one event's chunks. Never raises."""
        events: list[Event] = []
        for chunk in read or ():
            if not self._is_over:
                self._take(chunk, events)
        return events

    def end_stream(self) -> list[Event]:
        """Return the events after the upstream's end of stream; empty for a stream that was cut.

        A call with incomplete arguments is complete then: some upstreams omit its end.
        """
        if self._is_over or (self._finish is None and self._blocked is None):
            return []
        self._is_over = True
        events = self._calls.close()
        if not self._has_output:
            self._emit_usage(events, is_empty=True)
        if self._blocked is not None:
            reason, explanation = finish_reasons.read_block(*self._blocked)
            events.append(Finished(reason, explanation=explanation))
        elif self._finish is not None:
            has_calls = self._calls.count > 0
            finish, reason_text = finish_reasons.read_finish(*self._finish, has_calls=has_calls)
            events.append(Finished(finish, explanation=reason_text))
        events.append(Ended())
        return events

    def take_body(self, read: Sequence[GeminiChunk]) -> list[Event]:
        """Return the canonical events of a whole response, which has the form of a stream's chunk.

        Raises UpstreamMalformed if it has no candidate, or an error.
        """
        events = self.take_event(read)
        failed = next((event for event in events if isinstance(event, StreamFailed)), None)
        if failed is not None:
            raise UpstreamMalformed("an error where an answer was promised", failed.code)
        ending = self.end_stream()
        if not ending and all(isinstance(event, Began | UsageStated) for event in events):
            raise UpstreamMalformed("an answer without a candidate")
        return events + (ending or [Ended()])

    def _take(self, chunk: GeminiChunk, events: list[Event]) -> None:
        error = None if chunk.error is NULL else read_loosely(bytes(chunk.error))
        if (failed := failure_in(error, ("status", "code"))) is not None:
            self._is_over = True
            events.append(failed)
            return
        if not self._began and (chunk.candidates or chunk.prompt_feedback is not None):
            self._began = True
            self._calls.seed = chunk.response_id or ""
            self._stated.model = chunk.model_version
            events.append(Began(chunk.response_id, chunk.model_version))
        # Before the content: some protocols state the input's count first.
        if chunk.usage_metadata is not None:
            self._take_usage(chunk.usage_metadata, events)
        for candidate in chunk.candidates or ():
            if not candidate.index:  # translations return one response
                self._take_candidate(candidate, events)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason not in (None, *finish_reasons.NO_BLOCK):
            self._blocked = (feedback.block_reason or "", feedback.block_reason_message)

    def _take_usage(self, stated: UsageMetadata, events: list[Event]) -> None:
        self._stated.take_usage(stated)
        self._emit_usage(events, is_empty=False)

    def _emit_usage(self, events: list[Event], *, is_empty: bool) -> None:
        """Emit the usage if it has changed; `is_empty`: the response is complete, and empty."""
        usage = self._stated.usage(is_empty=is_empty)
        if usage is not None and usage != self._last_usage:
            self._last_usage = usage
            events.append(UsageStated(usage))

    def _take_candidate(self, candidate: Candidate, events: list[Event]) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._take_part(part, events)
        if candidate.grounding_metadata is not NULL:
            self._stated.ground(candidate.grounding_metadata)
            self._emit_usage(events, is_empty=False)
        if candidate.finish_reason:
            self._finish = (candidate.finish_reason, candidate.finish_message)

    def _take_part(self, part: ChunkPart, events: list[Event]) -> None:
        if not self._has_output:
            self._has_output = part.characters() > 0
        if part.function_call is not None:
            events.extend(self._calls.read(part.function_call, part.thought_signature))
            return
        if part.thought:
            if part.text or part.thought_signature:  # media among thoughts are drafts
                events.append(_thinking(part.text or "", part.thought_signature))
            return
        if part.text:
            events.append(TextDelta(part.text))
        elif part.text is None:
            self._take_rarer(part, events)
        if part.thought_signature:
            events.append(_thinking("", part.thought_signature))

    def _take_rarer(self, part: ChunkPart, events: list[Event]) -> None:
        if (inline := object_of(part.inline_data)) is not None:
            _emit_media(read_inline(inline), events)
        elif (file := object_of(part.file_data)) is not None:
            _emit_media(read_file(file), events)
        elif (code := object_of(part.executable_code)) is not None:
            events.append(TextDelta(text_of_code({"executableCode": code})))
        elif (outcome := object_of(part.code_execution_result)) is not None:
            events.append(TextDelta(text_of_code({"codeExecutionResult": outcome})))


def _emit_media(media: Media | None, events: list[Event]) -> None:
    if media is not None:
        events.append(MediaDelta(media))


def _thinking(text: str, signature: str | None) -> ThinkingDelta:
    if signature is None:
        return ThinkingDelta(text)
    return ThinkingDelta(text, signature=signature, signer=GEMINI.protocol)


# An empty line: the provider's Python library takes a comment for JSON, and fails.
KEEP_ALIVE = b"\n"


@dataclass(slots=True)
class _WaitingCall:
    """A call whose arguments are incomplete."""

    began: CallBegan
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


class GeminiStreamEncoder(EventEncoder):
    """Encodes one response's stream, for one attempt and one task.

    A function call is one part in this protocol: it is sent once its arguments are complete. The
    finish reason and the usage are in the last chunk, sent only after the upstream has ended: a cut
    stream has no finishReason (spec: Stream failure behaviour). Here as server-sent events; the
    array form has the same objects as elements (`array_stream.py`).

    The protocol always has usage and no time of creation: `include_usage` and `created` are
    ignored.
    """

    __slots__ = (
        "_calls",
        "_has_open_thought",
        "_has_written",
        "_names",
        "_tail",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._names: dict[str, Any] = {"modelVersion": model, "responseId": id}
        self._tail = b'],"role":"model"},"index":0}],' + dumps(self._names)[1:] + b"\r\n\r\n"
        # Items are removed from the front, which takes ever longer in a plain dict.
        self._calls: OrderedDict[int, _WaitingCall] = OrderedDict()
        self._has_open_thought = False
        self._has_written = False

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._has_written else "new"
        return f"<GeminiStreamEncoder {state}, {len(self._calls)} calls waiting>"

    def _call_began(self, event: CallBegan) -> bytes:
        self._has_open_thought = False
        whole = self._whole_calls()
        self._calls.setdefault(event.index, _WaitingCall(event))
        return whole

    def _call_delta(self, event: CallDelta) -> bytes:
        waiting = self._calls.get(event.index)
        if waiting is not None:
            waiting.arguments.add(event.arguments)
        return b""

    def _refusal(self, text: str) -> bytes:
        return self._text(text)

    def _media(self, media: Media) -> bytes:
        self._has_open_thought = False
        return self._whole_calls() + self._chunk(dumps(write_part(media)))

    def _failed(self, event: StreamFailed) -> bytes:
        return _framed(_error(event))

    def _chunk(self, part: bytes) -> bytes:
        self._has_written = True
        return b'data: {"candidates":[{"content":{"parts":[' + part + self._tail

    def _text(self, text: str) -> bytes:
        self._has_open_thought = False
        if not text:
            return b""
        chunk = self._chunk(b'{"text":' + dumps(text) + b"}")
        return self._whole_calls() + chunk if self._calls else chunk

    def _thinking(self, event: ThinkingDelta) -> bytes:
        thought = Thinking(
            "" if event.redacted else event.text,
            signature=event.signature,
            signer=event.signer,
            redacted=event.redacted,
        )
        if not (thought.text or thought.signature or thought.redacted):
            return b""
        part = write_thinking(thought, is_thought=self._has_open_thought)
        self._has_open_thought = "thoughtSignature" not in part
        return self._whole_calls() + self._chunk(dumps(part))

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

    def _end(self) -> bytes:
        written = [self._chunk(dumps(waiting.part())) for waiting in self._calls.values()]
        finished = self._finished
        reason, message = finish_reasons.write_finish(
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
        return b"".join([*written, _framed(dumps({**last, **self._names}))])


def _framed(chunk: bytes) -> bytes:
    return b"data: " + chunk + b"\r\n\r\n"


def _error(event: StreamFailed) -> bytes:
    failure = failure_named(event.code)
    error = {
        "code": failure.http_status,
        "message": event.message,
        "status": failure.gemini_status,
    }
    return dumps({"error": error})
