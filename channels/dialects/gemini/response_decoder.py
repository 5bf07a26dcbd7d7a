"""A native-content upstream's response, streamed or whole, as canonical events.

The protocol has no terminator: a stream with a finish reason, or with a refused prompt, is complete
when the upstream ends it. Until then more may follow, such as the usage, so the finish reason is
emitted at the end. No input raises.
"""

from __future__ import annotations

from collections.abc import Sequence

from channels.dialects.gemini import finish_reasons
from channels.dialects.gemini.decode import text_of_code
from channels.dialects.gemini.events import Candidate, ChunkPart, GeminiChunk, object_of
from channels.dialects.gemini.grounding import GroundingReader
from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.tool_calls import GeminiToolCallReader
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.families import GEMINI
from channels.json.lenient import NULL, read_loosely
from channels.translation.codec import Metered
from channels.translation.error_names import failure_in
from channels.translation.events import (
    Began,
    Ended,
    Event,
    Finished,
    MediaDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.model import Media


class GeminiResponseDecoder:
    """Decodes one response. Made for one attempt, used from one task."""

    __slots__ = (
        "_began",
        "_blocked",
        "_calls",
        "_finish",
        "_grounding",
        "_has_output",
        "_is_over",
        "_last_usage",
        "_meter",
    )

    def __init__(self, meter: Metered) -> None:
        self._meter = meter
        self._calls = GeminiToolCallReader()
        self._grounding = GroundingReader()
        self._began = False
        self._has_output = False
        self._is_over = False
        self._finish: tuple[str, str | None] | None = None  # reason and message
        self._blocked: tuple[str, str | None] | None = None
        self._last_usage: Usage | None = None  # emitted last

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
        events: list[Event] = [*self._grounding.citations(), *self._calls.close()]
        if not self._has_output:
            self._emit_usage(events)
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
        events: list[Event] = []
        for chunk in read:
            if (failed := _failure_in(chunk)) is not None:
                raise UpstreamMalformed("an error where an answer was promised", failed.code)
            self._begin(chunk, events)
            self._take_content(chunk, events, is_whole=True)
        ending = self.end_stream()
        if not ending and all(isinstance(one, Began | UsageStated) for one in events):
            raise UpstreamMalformed("an answer without a candidate")
        self._emit_usage(events)
        return events + (ending or [Ended()])

    def _take(self, chunk: GeminiChunk, events: list[Event]) -> None:
        if (failed := _failure_in(chunk)) is not None:
            self._is_over = True
            events.append(failed)
            return
        self._begin(chunk, events)
        # Before the content: some protocols state the input's count first.
        if chunk.usage_metadata is not None or chunk.usage is not NULL:
            self._emit_usage(events)
        self._take_content(chunk, events)

    def _begin(self, chunk: GeminiChunk, events: list[Event]) -> None:
        if not self._began and (chunk.candidates or chunk.prompt_feedback is not None):
            self._began = True
            self._calls.seed = chunk.response_id or ""
            events.append(Began(chunk.response_id, chunk.model_version))

    def _take_content(
        self, chunk: GeminiChunk, events: list[Event], *, is_whole: bool = False
    ) -> None:
        for candidate in chunk.candidates or ():
            if not candidate.index:  # translations return one response
                self._take_candidate(candidate, events, is_whole=is_whole)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason not in (None, *finish_reasons.NO_BLOCK):
            self._blocked = (feedback.block_reason or "", feedback.block_reason_message)

    def _emit_usage(self, events: list[Event]) -> None:
        """Emit the usage if it has changed."""
        usage = self._meter.shown_usage
        if usage is not None and usage != self._last_usage:
            self._last_usage = usage
            events.append(UsageStated(usage))

    def _take_candidate(self, candidate: Candidate, events: list[Event], *, is_whole: bool) -> None:
        if candidate.content is not None:
            for index, part in enumerate(candidate.content.parts or ()):
                if is_whole and part.text and not part.thought:
                    self._grounding.begin_part(index)
                self._take_part(part, events)
        if candidate.grounding_metadata is not NULL:
            self._grounding.note(candidate.grounding_metadata)
            self._emit_usage(events)
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
            self._say(part.text, events)
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
            self._say(text_of_code({"executableCode": code}), events)
        elif (outcome := object_of(part.code_execution_result)) is not None:
            self._say(text_of_code({"codeExecutionResult": outcome}), events)

    def _say(self, text: str, events: list[Event]) -> None:
        self._grounding.add(text)
        events.append(TextDelta(text))


def _failure_in(chunk: GeminiChunk) -> StreamFailed | None:
    return None if chunk.error is NULL else failure_in(read_loosely(bytes(chunk.error)), _CODES)


# The members of an error with its code, the most trusted first.
_CODES = ("status", "code")


def _emit_media(media: Media | None, events: list[Event]) -> None:
    if media is not None:
        events.append(MediaDelta(media))


def _thinking(text: str, signature: str | None) -> ThinkingDelta:
    if signature is None:
        return ThinkingDelta(text)
    return ThinkingDelta(text, signature=signature, signer=GEMINI.protocol)
