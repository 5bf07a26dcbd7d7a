"""Read a chat-completions answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream. What the counts cost
is `gw/calls/charge.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from channels.dialects.chat.chunk import (
    Chunk,
    GroqMember,
    count_loosely,
    groq_member,
    read_usage,
    spare_usage,
)
from channels.dialects.meter import UNREADABLE, AnswerMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, raw_of, read_loosely

_DECODER = msgspec.json.Decoder(Chunk)
_TERMINATOR = b"[DONE]"


class ChatMeter(AnswerMeter):
    """Follows one answer. `finished`: the terminator was seen, or the answer came whole."""

    __slots__ = ("_has_own_usage",)

    def __init__(self) -> None:
        super().__init__()
        self._has_own_usage = False  # stated in the member that the protocol has for it

    def event(self, data: bytes) -> bool:
        """Read one event's data. Never raises.

        False for the chunk that states usage and nothing else: it is withheld from a client that
        did not ask for usage (contract §5).
        """
        if data == _TERMINATOR:
            self.finished = True
            return True
        try:
            chunk = _DECODER.decode(data)
        except UNREADABLE:
            if data.strip() == _TERMINATOR:
                self.finished = True
                return True
            value = _loose_object(data)
            if value is None:
                self.malformed_events += 1
                return True
            return self._take_loosely(value)
        return self._take(chunk)

    def body(self, body: bytes) -> None:
        """Read a whole answer. Raises UpstreamMalformed when it is not a JSON object."""
        try:
            self._take(_DECODER.decode(body))
        except UNREADABLE:
            value = _loose_object(body)
            if value is None:
                raise UpstreamMalformed("not a JSON object") from None
            self._take_loosely(value)
        self.finished = True

    def _take(self, chunk: Chunk) -> bool:
        choices = chunk.choices
        if choices:
            for choice in choices:
                said = choice.delta
                if said is not None:
                    self.characters += said.characters()
                if choice.message is not None:
                    self.characters += choice.message.characters()
                if choice.finish_reason is not None:
                    self.finish_reason = fit_name(choice.finish_reason)
                if choice.usage is not NOTHING:
                    self._take_spare_usage(None, choice.usage)
        if chunk.x_groq is not None:
            self._take_spare_usage(chunk.x_groq)
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.id, chunk.model)
        # The default is shared, so an absent member costs no comparison of bytes.
        has_usage = chunk.usage is not NOTHING and self._take_usage(chunk.usage)
        has_error = chunk.error is not NOTHING and self._note_error(chunk.error)
        return bool(choices) or has_error or not has_usage

    def _take_usage(self, stated: msgspec.Raw) -> bool:
        """Keep a usage member. True when it states something, readable or not."""
        if bytes(stated) == b"null":
            return False
        usage = read_usage(stated)
        if usage is None:
            self.malformed_events += 1
        else:
            self._usage = usage  # some upstreams state a running count in every chunk
            self._has_own_usage = True
        return True

    def _take_spare_usage(self, groq: GroqMember | None, *of_choices: msgspec.Raw) -> None:
        if not self._has_own_usage:
            self._usage = spare_usage(groq, of_choices) or self._usage

    def _take_loosely(self, value: dict[str, Any]) -> bool:
        """Read what can be read of an answer that is not as documented.

        An id that is a number, a lone surrogate in the text, content in parts: what was delivered
        still counts.
        """
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self.characters += count_loosely(choice)
                if isinstance(reason := choice.get("finish_reason"), str):
                    self.finish_reason = fit_name(reason)
                if choice.get("usage") is not None:
                    self._take_spare_usage(None, raw_of(choice["usage"]))
        rest = Chunk(
            x_groq=groq_member(value),
            usage=raw_of(value.get("usage")),
            error=raw_of(value.get("error")),
            id=_text(value.get("id")),
            model=_text(value.get("model")),
        )
        return self._take(rest) or bool(choices)


def _loose_object(data: bytes) -> dict[str, Any] | None:
    """A JSON object by the most forgiving rules; None when it is none."""
    value = read_loosely(data, mends=False)
    return value if isinstance(value, dict) else None


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    return data.strip() == _TERMINATOR


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
