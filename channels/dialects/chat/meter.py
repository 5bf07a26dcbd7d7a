"""Meters a chat-completions response as it is passed on: usage, characters, how it ended.

The caller passes on the bytes; nothing here changes or delays them. An unreadable event is
passed on and counted in `malformed_events`: it must not end a stream. `gw/calls/token_charge.py`
prices the counts.
"""

from __future__ import annotations

from channels.dialects.chat import events
from channels.dialects.chat.usage import ChatUsageReader
from channels.dialects.meter import StatedMeter, fit_name
from channels.dialects.text_frame import TextFrame, frame_of
from channels.errors import UpstreamMalformed
from channels.json.lenient import NULL, is_stated

# Limit of the choices that are told apart; upstreams refuse more.
CHOICES_MAX = 1_000


class ChatMeter(StatedMeter[events.ChatChunk, ChatUsageReader]):
    """Meters one response. `finished`: the terminator was received, or the response is whole.

    Some upstreams end a stream without the terminator: it is complete if each of its choices has
    stated why it stopped, and its body has ended properly.
    """

    def __init__(self) -> None:
        self._stated = ChatUsageReader()
        self._last_index = 0  # of the choices
        self._ended: set[int] = set()  # choices with a finish reason

    read_event = staticmethod(events.read_chunk)

    @staticmethod
    def frame_of(event: bytes, chunk: events.ChatChunk | None) -> TextFrame | None:
        """See ResponseMeter. What an event states of its model and tier does not add up."""
        if chunk is None or chunk.choices is None or len(chunk.choices) != 1:
            return None
        (choice,) = chunk.choices
        delta = choice.delta
        if (
            delta is None
            or not delta.content
            or delta.characters() != len(delta.content)
            or choice.finish_reason
            or choice.usage is not NULL
            or choice.error is not NULL
            or chunk.x_groq is not None
            or is_stated(chunk.usage)
            or is_stated(chunk.error)
        ):
            return None
        return frame_of(event, b"content", delta.content)

    def take_event(self, chunk: events.ChatChunk | None) -> bool:
        """Meter a decoded event.

        False for a chunk that states usage and nothing else: it is withheld from a client that did
        not request usage (reference 2.5).
        """
        if chunk is None:
            self.malformed_events += 1
            return True
        choices = chunk.choices
        has_error = False
        if choices:
            for choice in choices:
                self.has_choice = self.has_choice or choice.is_stated()
                has_error = has_error or choice.error is not NULL
                if choice.index:
                    self._last_index = max(self._last_index, choice.index)
                one_delta = choice.delta
                if one_delta is not None:
                    self.characters += one_delta.characters()
                elif choice.message is not None and not self.characters:
                    # In other chunks it repeats the deltas so far.
                    self.characters += choice.message.characters()
                if choice.finish_reason:
                    self.finish_reason = fit_name(choice.finish_reason)
                    if len(self._ended) < CHOICES_MAX:
                        self._ended.add(choice.index or 0)
                if choice.usage is not NULL:
                    self._stated.take_spare(None, choice.usage, characters=self.characters)
        if chunk.x_groq is not None:
            self._stated.take_spare(chunk.x_groq, characters=self.characters)
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.id, chunk.model)
            self._stated.model = self.response_model
        if chunk.service_tier is not None:
            self._stated.tier = chunk.service_tier
        if choices and chunk.usage is NULL and chunk.error is NULL and not has_error:
            return True
        return self._take_end(chunk)

    def take_body(self, body: bytes) -> events.ChatChunk:
        """Meter and return a whole response. Raises UpstreamMalformed if it is no JSON object."""
        chunk = events.read_whole(body)
        if chunk is None:
            raise UpstreamMalformed("not a JSON object")
        for choice in chunk.choices or ():
            if choice.message is not None:
                self.characters += choice.message.characters()
        self.take_event(chunk)
        self.finished = True
        return chunk

    def end_of_body(self) -> None:
        if self.error_seen is None and len(self._ended) > self._last_index:
            self.finished = True

    def _take_end(self, chunk: events.ChatChunk) -> bool:
        """Meter usage and errors. False if the chunk states usage and nothing else."""
        if chunk is events.TERMINATOR:
            self.finished = True
            return True
        has_usage = chunk.usage is not NULL and bytes(chunk.usage) != b"null"
        if has_usage and not self._stated.take_usage(chunk.usage, self.characters):
            self.malformed_events += 1
        error = events.error_in(chunk)
        if chunk.choices and error is NULL:
            return True
        has_error = self._note_error(error)
        return bool(chunk.choices) or has_error or not has_usage
