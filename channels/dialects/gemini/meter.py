"""Meters a gemini response: usage, characters, its end.

It neither changes nor delays the bytes. A chunk that cannot be decoded is forwarded, and counted
in `malformed_events`: it must not end a stream.

A stream has no terminator. It is read until the upstream ends it, and is complete (`finished`) if
every candidate has stated a finish reason, or the prompt was refused. More may follow a finish
reason, such as the usage, so `finished` does not end the reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from channels.dialects.gemini import events
from channels.dialects.gemini.events import read_event
from channels.dialects.gemini.usage import GeminiUsageReader
from channels.dialects.meter import ResponseMeter, fit_name
from channels.dialects.token_counts import PartialUsage, Usage
from channels.errors import UpstreamMalformed
from channels.json.lenient import NULL


class GeminiMeter(ResponseMeter[Sequence[events.GeminiChunk]]):
    """Meters one response. `finished`: it is complete if it ends here."""

    _error_names: ClassVar[tuple[str, ...]] = ("status", "code")

    def __init__(self) -> None:
        self._has_ended: dict[int, bool] = {}  # by candidate
        self._unended = 0  # candidates that have not ended
        self._stated = GeminiUsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage(is_empty=self.finished and not self.characters)

    @property
    def partial_usage(self) -> PartialUsage | None:
        return self._stated.partial() if self.usage is None else None

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered

    read_event = staticmethod(read_event)

    def take_event(self, read: Sequence[events.GeminiChunk] | None) -> bool:
        """Meter what was read of an event. True, as every event is forwarded."""
        if read is None:
            self.malformed_events += 1
            return True
        for chunk in read:
            self._take(chunk)
        return True

    def take_body(self, body: bytes) -> Sequence[events.GeminiChunk]:
        """Meter and return a whole response. Raises UpstreamMalformed if it is no JSON object."""
        chunks = events.read_chunks(body)
        if not chunks:
            raise UpstreamMalformed("not a JSON object")
        self.take_event(chunks)
        self.finished = True
        return chunks

    def _take(self, chunk: events.GeminiChunk) -> None:
        for candidate in chunk.candidates or ():
            self._take_candidate(candidate)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.finish_reason = fit_name(feedback.block_reason)
            self.finished = True
        usage = chunk.stated_usage()
        if usage is not None:
            self._stated.take_usage(usage, self.characters)
        if isinstance(chunk, events.LooseGeminiChunk) and chunk.is_usage_unreadable:
            self.malformed_events += 1
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.response_id, chunk.model_version)
            self._stated.model = self.response_model
        if chunk.error is not NULL:
            self._note_error(chunk.error)

    def _take_candidate(self, candidate: events.Candidate) -> None:
        content = candidate.content
        self.has_choice = self.has_choice or content is not None
        if content is not None and content.parts:
            for part in content.parts:
                self.characters += part.characters()
        if candidate.grounding_metadata is not NULL:
            self._stated.ground(candidate.grounding_metadata)
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
    """Whether an event without its blank line counts at the end of the stream.

    There is no terminator; a complete chunk with a finish reason, or with usage only, counts as the
    last one.
    """
    return any(
        any(candidate.finish_reason for candidate in chunk.candidates or ())
        or (chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None)
        or (not chunk.candidates and chunk.stated_usage() is not None)
        for chunk in events.read_chunks(data, mends=False) or ()
    )
