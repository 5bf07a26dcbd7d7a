"""Read a gemini stream into canonical events.

The protocol has no terminator: a stream that has said why it stopped, or that the prompt was
refused, is complete where the upstream ends it. Until then more may follow, such as the usage; so
why it stopped is told at the end. Nothing an upstream sends raises. The calls' own rules are
`tool_calls.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from channels.dialects.gemini.chunk import Candidate, Chunk, Part, UsageMetadata, object_of
from channels.dialects.gemini.finish import read_block, read_finish
from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.parts import text_of_code
from channels.dialects.gemini.tool_calls import ToolCallReader
from channels.dialects.gemini.usage import UsageReader
from channels.families import GEMINI
from channels.json.lenient import NOTHING, read_loosely
from channels.translation.failures import failure_in
from channels.translation.model import (
    Began,
    Ended,
    Event,
    Finished,
    Media,
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
        "_has_output",
        "_is_over",
        "_last_stated",
        "_stated",
    )

    def __init__(self) -> None:
        self._calls = ToolCallReader()
        self._began = False
        self._has_output = False
        self._is_over = False
        self._finish: tuple[str, str | None] | None = None  # reason and message
        self._blocked: tuple[str, str | None] | None = None
        self._stated = UsageReader()
        self._last_stated: UsageMetadata | None = None  # the counts that were told last

    def __repr__(self) -> str:
        state = "over" if self._is_over else "began" if self._began else "new"
        return f"<gemini.StreamDecoder {state}, {self._calls}>"

    def take(self, read: Sequence[Chunk] | None) -> list[Event]:
        """The events that the chunks of one event of the wire hold. Never raises."""
        events: list[Event] = []
        for chunk in read or ():
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
        if not self._has_output:
            self._emit_usage(events)
        if self._blocked is not None:
            reason, explanation = read_block(*self._blocked)
            events.append(Finished(reason, explanation=explanation))
        elif self._finish is not None:
            has_calls = self._calls.count > 0
            finish, reason_text = read_finish(*self._finish, has_calls=has_calls)
            events.append(Finished(finish, explanation=reason_text))
        events.append(Ended())
        return events

    def _take(self, chunk: Chunk, events: list[Event]) -> None:
        error = None if chunk.error is NOTHING else read_loosely(bytes(chunk.error))
        if (failed := failure_in(error, ("status", "code"))) is not None:
            self._is_over = True
            events.append(failed)
            return
        if not self._began and (chunk.candidates or chunk.prompt_feedback is not None):
            self._began = True
            self._calls.seed = chunk.response_id or ""
            events.append(Began(chunk.response_id, chunk.model_version))
        # Before the content: some clients' protocols state the input's count at the beginning.
        if chunk.usage_metadata is not None:
            is_whole = self._stated.take(chunk.usage_metadata)
            if is_whole and chunk.usage_metadata != self._last_stated:
                self._last_stated = chunk.usage_metadata
                self._emit_usage(events)
        for candidate in chunk.candidates or ():
            if not candidate.index:  # one response is all we translate
                self._take_candidate(candidate, events)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason not in (None, *_NO_BLOCK):
            self._blocked = (feedback.block_reason or "", feedback.block_reason_message)

    def _emit_usage(self, events: list[Event]) -> None:
        usage = self._stated.usage(is_empty=not self._has_output)
        if usage is not None:
            events.append(UsageStated(usage))

    def _take_candidate(self, candidate: Candidate, events: list[Event]) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._take_part(part, events)
        if candidate.finish_reason:
            self._finish = (candidate.finish_reason, candidate.finish_message)

    def _take_part(self, part: Part, events: list[Event]) -> None:
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

    def _take_rarer(self, part: Part, events: list[Event]) -> None:
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
