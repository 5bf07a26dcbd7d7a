"""Read a gemini response as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. A chunk that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream.

A stream has no terminator. It is read until the upstream ends it, and was complete if by then
every candidate had said why it stopped, or the prompt was refused: that is `finished`. More may
follow the reason, such as the usage; so `finished` is no cause to stop reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from channels.dialects.gemini.chunk import Candidate, Chunk, LooseChunk, decode_chunk, read_chunks
from channels.dialects.gemini.usage import UsageReader
from channels.dialects.meter import ResponseMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING
from channels.usage import PartialUsage, Usage


class GeminiMeter(ResponseMeter[Chunk, Sequence[Chunk]]):
    """Follows one response. `finished`: it would be complete if it ended here, or it came whole."""

    __slots__ = ("_has_ended", "_stated", "_unended")

    _error_names: ClassVar[tuple[str, ...]] = ("status", "code")

    def __init__(self) -> None:
        super().__init__()
        self._has_ended: dict[int, bool] = {}  # of each candidate seen
        self._unended = 0  # candidates that have not ended
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage(is_empty=self.finished and not self.characters)

    @property
    def partial_usage(self) -> PartialUsage | None:
        return self._stated.partial() if self.usage is None else None

    _decode = staticmethod(decode_chunk)
    read = staticmethod(read_chunks)

    def take(self, read: Sequence[Chunk] | None) -> bool:
        """Meter what was read of an event. True, as every event is forwarded."""
        if read is None:
            self.malformed_events += 1
            return True
        for chunk in read:
            self._take(chunk)
        return True

    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""
        chunks = read_chunks(body)
        if not chunks:
            raise UpstreamMalformed("not a JSON object")
        self.take(chunks)
        self.finished = True

    def _take(self, chunk: Chunk) -> bool:
        if chunk.candidates:
            for candidate in chunk.candidates:
                self._take_candidate(candidate)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.finish_reason = fit_name(feedback.block_reason)
            self.finished = True
        if chunk.usage_metadata is not None:
            self._stated.take(chunk.usage_metadata)
        elif isinstance(chunk, LooseChunk) and chunk.is_usage_unreadable:
            self.malformed_events += 1
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.response_id, chunk.model_version)
        if chunk.error is not NOTHING:
            self._note_error(chunk.error)
        return True

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


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line counts all the same, at the end of the stream.

    There is no terminator that could stand alone; a chunk that is whole and says why the response
    stopped, or states its usage only, is taken for the last.
    """
    return any(
        any(candidate.finish_reason for candidate in chunk.candidates or ())
        or (chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None)
        or (not chunk.candidates and chunk.usage_metadata is not None)
        for chunk in read_chunks(data, mends=False) or ()
    )
