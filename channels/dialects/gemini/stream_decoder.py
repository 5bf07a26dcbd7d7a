"""Read a native-content stream into canonical events.

The protocol has no terminator: a stream that has said why it stopped, or that the prompt was
refused, is complete where the upstream ends it. Until then more may follow, such as the usage; so
why it stopped is told at the end. Nothing an upstream sends raises. The calls' own rules are
`tool_calls.py`.
"""

from __future__ import annotations

import msgspec

from channels.dialects.error_body import message_in
from channels.dialects.gemini.chunk import UsageMetadata
from channels.dialects.gemini.finish import read_block, read_finish
from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.parts import told
from channels.dialects.gemini.stream_chunk import Candidate, Chunk, Part, read_chunks
from channels.dialects.gemini.tool_calls import CallReader
from channels.dialects.gemini.usage import read_usage
from channels.families import GEMINI
from channels.http.sse import SseEvent
from channels.json.lenient import NOTHING, read_loosely
from channels.translation.model import (
    Began,
    Ended,
    Event,
    Failed,
    Finished,
    MediaDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)

_NO_BLOCK = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")


class StreamDecoder:
    """Reads one stream. Made for one attempt, used from one task."""

    __slots__ = (
        "_began",
        "_blocked",
        "_calls",
        "_finish",
        "_has_content",
        "_is_over",
        "_running",
        "_usage",
    )

    def __init__(self) -> None:
        self._calls = CallReader()
        self._began = False
        self._has_content = False
        self._is_over = False
        self._finish: tuple[str, str | None] | None = None  # reason and message
        self._blocked: tuple[str, str | None] | None = None
        self._usage = b""  # the counts as they were stated last
        self._running: UsageMetadata | None = None  # likewise, where they tell the input only

    def __repr__(self) -> str:
        state = "over" if self._is_over else "began" if self._began else "new"
        return f"<native.StreamDecoder {state}, {self._calls}>"

    def feed(self, event: SseEvent) -> list[Event]:
        """The events that one event of the wire holds; none for comments. Never raises."""
        if event.data is None or self._is_over:
            return []
        return self.take(read_chunks(event.data))

    def take(self, chunks: list[Chunk]) -> list[Event]:
        """The events that some chunks hold."""
        events: list[Event] = []
        for chunk in chunks:
            if not self._is_over:
                self._take(chunk, events)
        return events

    def end(self) -> list[Event]:
        """The upstream has ended the stream cleanly. Nothing to say where it was cut all the same.

        A call whose arguments were still coming is whole by then: some upstreams leave its end out.
        """
        if self._is_over or (self._finish is None and self._blocked is None):
            return []
        self._is_over = True
        events = self._calls.close()
        if self._running is not None and not self._has_content:
            events.append(UsageStated(self._running.usage()))  # zeros are left out on the wire
        if self._blocked is not None:
            reason, explanation = read_block(*self._blocked)
            events.append(Finished(reason, explanation=explanation))
        elif self._finish is not None:
            has_calls = self._calls.count > 0
            finish, told_why = read_finish(*self._finish, has_calls=has_calls)
            events.append(Finished(finish, explanation=told_why))
        events.append(Ended())
        return events

    def _take(self, chunk: Chunk, events: list[Event]) -> None:
        if chunk.error is not NOTHING and (failed := _failure(chunk.error)) is not None:
            self._is_over = True
            events.append(failed)
            return
        if not self._began and (chunk.candidates or chunk.prompt_feedback is not None):
            self._began = True
            self._calls.seed = chunk.response_id or ""
            events.append(Began(chunk.response_id, chunk.model_version))
        # Before the content: some clients' protocols state the input's count at the beginning.
        if chunk.usage_metadata is not NOTHING:
            self._take_usage(bytes(chunk.usage_metadata), events)
        for candidate in chunk.candidates or ():
            if not candidate.index:  # one answer is all we translate
                self._take_candidate(candidate, events)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason not in (None, *_NO_BLOCK):
            self._blocked = (feedback.block_reason or "", feedback.block_reason_message)

    def _take_usage(self, raw: bytes, events: list[Event]) -> None:
        """The counts are running totals: each statement replaces the one before."""
        if raw == self._usage:
            return
        self._usage = raw
        stated = read_usage(raw)
        if stated is None:
            return
        if stated.states_output():
            self._running = None
            events.append(UsageStated(stated.usage()))
        else:
            self._running = stated

    def _take_candidate(self, candidate: Candidate, events: list[Event]) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._take_part(part, events)
        if candidate.finish_reason:
            self._finish = (candidate.finish_reason, candidate.finish_message)

    def _take_part(self, part: Part, events: list[Event]) -> None:
        if part.function_call is not None:
            self._has_content = True
            events.extend(self._calls.read(part.function_call, part.thought_signature))
            return
        if part.thought:
            if part.text or part.thought_signature:  # media among thoughts are drafts
                self._has_content = True
                events.append(_thinking(part.text or "", part.thought_signature))
            return
        if part.text:
            self._has_content = True
            events.append(TextDelta(part.text))
        elif part.text is None:
            self._take_rarer(part, events)
        if part.thought_signature:
            events.append(_thinking("", part.thought_signature))

    def _take_rarer(self, part: Part, events: list[Event]) -> None:
        media = None
        if part.inline_data is not None:
            media = read_inline(part.inline_data)
        elif part.file_data is not None:
            media = read_file(part.file_data)
        elif part.executable_code is not None:
            events.append(TextDelta(told({"executableCode": part.executable_code})))
        elif part.code_execution_result is not None:
            events.append(TextDelta(told({"codeExecutionResult": part.code_execution_result})))
        else:
            return
        self._has_content = True
        if media is not None:
            events.append(MediaDelta(media))


def _thinking(text: str, signature: str | None) -> ThinkingDelta:
    if signature is None:
        return ThinkingDelta(text)
    return ThinkingDelta(text, signature=signature, signer=GEMINI.protocol)


def _failure(raw: msgspec.Raw) -> Failed | None:
    """The error a chunk states; None where the member is there and says nothing."""
    error = read_loosely(bytes(raw))
    if not error:
        return None
    code = None
    if isinstance(error, dict):
        code = error.get("status") or error.get("code")
    return Failed(
        str(code) if isinstance(code, str | int) else None,
        message_in(error) or "The upstream reported an error.",
    )
