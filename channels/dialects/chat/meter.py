"""Read a chat-completions answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream. What the counts cost
is `gw/calls/charge.py`.
"""

from __future__ import annotations

from channels.dialects.chat.chunk import (
    TERMINATOR,
    Chunk,
    decode_chunk,
    error_in,
    is_terminator,
    read_chunk,
    read_whole,
)
from channels.dialects.chat.usage import UsageReader
from channels.dialects.meter import ResponseMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING
from channels.usage import PartialUsage, Usage


class ChatMeter(ResponseMeter[Chunk, Chunk]):
    """Follows one response. `finished`: the terminator was seen, or the response came whole."""

    __slots__ = ("_stated",)

    def __init__(self) -> None:
        super().__init__()
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        total = self._stated.total_tokens
        return None if total is None else PartialUsage(None, None, total)

    _decode = staticmethod(decode_chunk)
    read = staticmethod(read_chunk)

    def take(self, read: Chunk | None) -> bool:
        """Meter what was read of an event.

        False for the chunk that states usage and nothing else: it is withheld from a client that
        did not ask for usage (contract §5).
        """
        if read is None:
            self.malformed_events += 1
            return True
        if read is TERMINATOR:
            self.finished = True
            return True
        return self._take(read)

    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""
        chunk = read_whole(body)
        if chunk is None:
            raise UpstreamMalformed("not a JSON object")
        for choice in chunk.choices or ():
            if choice.message is not None:
                self.characters += choice.message.characters()
        self._take(chunk)
        self.finished = True

    def _take(self, chunk: Chunk) -> bool:
        choices = chunk.choices
        if choices:
            for choice in choices:
                one_delta = choice.delta
                if one_delta is not None:
                    self.characters += one_delta.characters()
                elif choice.message is not None and not self.characters:
                    # Elsewhere it says once more what the deltas did, whole or as far as they came.
                    self.characters += choice.message.characters()
                if choice.finish_reason is not None:
                    self.finish_reason = fit_name(choice.finish_reason)
                if choice.usage is not NOTHING:
                    self._stated.take_spare(None, choice.usage)
        if chunk.x_groq is not None:
            self._stated.take_spare(chunk.x_groq)
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.id, chunk.model)
        usage = chunk.usage
        if choices and usage is NOTHING and chunk.error is NOTHING:
            return True  # as nearly every one
        has_usage = usage is not NOTHING and bytes(usage) != b"null"
        if has_usage and not self._stated.take(usage):
            self.malformed_events += 1
        has_error = False
        if chunk.error is not NOTHING or not choices:
            has_error = self._note_error(error_in(chunk))
        return bool(choices) or has_error or not has_usage


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    return is_terminator(data)
