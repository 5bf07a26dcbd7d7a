"""Read a native-content answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. A chunk that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream.

A stream has no terminator. It is read until the upstream ends it, and was complete if by then
every candidate had said why it stopped, or the prompt was refused: that is `finished`. More may
follow the reason, such as the usage; so `finished` is no cause to stop reading.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from channels.dialects.gemini.chunk import Candidate, Chunk, UsageMetadata, chunk_of
from channels.dialects.meter import UNREADABLE, AnswerMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, read_loosely
from channels.usage import PartialUsage, Usage

_CHUNK = msgspec.json.Decoder(Chunk)
# Some upstreams close this protocol as they would chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


class NativeMeter(AnswerMeter):
    """Follows one answer. `finished`: it would be complete if it ended here, or it came whole."""

    __slots__ = ("_has_ended", "_running", "_told", "_unended")

    _error_names: ClassVar[tuple[str, ...]] = ("status", "code")

    def __init__(self) -> None:
        super().__init__()
        self._has_ended: dict[int, bool] = {}  # of each candidate seen
        self._unended = 0  # candidates that have not ended
        self._told: UsageMetadata | None = None  # the counts stated last
        self._running: UsageMetadata | None = None  # likewise, where they tell the input only

    @property
    def usage(self) -> Usage | None:
        """The counts stated last, made into a usage only now: every chunk of a stream has some.

        Counts that tell the input only are whole where nothing was put out, as zeros may be left
        out on the wire; where text has passed they are not.
        """
        if self._told is not None:
            return self._told.usage()
        if self._running is not None and self.finished and not self.characters:
            return self._running.usage()
        return None

    @property
    def partial_usage(self) -> PartialUsage | None:
        if self._running is None or self.usage is not None:
            return None
        return PartialUsage(input=self._running.usage(), output_tokens=None)

    def event(self, data: bytes) -> bool:
        """Read one event's data. Never raises; True, as every event is forwarded."""
        try:
            chunk = _CHUNK.decode(data)
        except UNREADABLE:
            if not self._take_loosely(data) and data.strip() != _FOREIGN_TERMINATOR:
                self.malformed_events += 1
        else:
            self._take(chunk)
        return True

    def body(self, body: bytes) -> None:
        """Read a whole answer. Raises UpstreamMalformed when it is not a JSON object."""
        try:
            self._take(_CHUNK.decode(body))
        except UNREADABLE:
            if not self._take_loosely(body):
                raise UpstreamMalformed("not a JSON object") from None
        self.finished = True

    def _take(self, chunk: Chunk) -> None:
        if chunk.candidates:
            for candidate in chunk.candidates:
                self._take_candidate(candidate)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.finish_reason = fit_name(feedback.block_reason)
            self.finished = True
        stated = chunk.usage_metadata
        if stated is not None and stated.prompt_token_count is not None:
            if stated.states_output():
                self._told = stated  # running counts: each replaces the one before
            else:
                self._running = stated
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.response_id, chunk.model_version)
        if chunk.error is not NOTHING:
            self._note_error(chunk.error)

    def _take_candidate(self, candidate: Candidate) -> None:
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                self.characters += part.characters()
        ended = self._has_ended
        index = candidate.index or 0
        if candidate.finish_reason is not None:
            self.finish_reason = fit_name(candidate.finish_reason)
            if ended.get(index) is False:
                self._unended -= 1
            ended[index] = True
            self.finished = not self._unended
        elif index not in ended:
            ended[index] = False
            self._unended += 1
            self.finished = False

    def _take_loosely(self, data: bytes) -> bool:
        """Read what can be read of chunks that are not as documented. False for none at all."""
        values = _objects_in(data)
        for value in values:
            chunk = chunk_of(value)
            self._take(chunk)
            if chunk.usage_metadata is None and value.get("usageMetadata") is not None:
                self.malformed_events += 1
        return bool(values)


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line counts all the same, at the end of the stream.

    There is no terminator that could stand alone; a chunk that is whole and says why the answer
    stopped, or states its usage only, is taken for the last.
    """
    chunks = map(chunk_of, _objects_in(data, mends=False))
    return any(
        any(candidate.finish_reason for candidate in chunk.candidates or ())
        or (chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None)
        or (not chunk.candidates and chunk.usage_metadata is not None)
        for chunk in chunks
    )


def _objects_in(data: bytes, *, mends: bool = True) -> list[dict[str, Any]]:
    """An object, or those of an array; empty when there is none."""
    value = read_loosely(data, mends=mends)
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, dict)]
