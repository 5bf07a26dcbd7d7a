"""Read a messages answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream.

Usage comes in two parts: `message_start` tells the input, `message_delta` what has been put out so
far, and anew whatever has changed. Its numbers are running totals, so each replaces the one before
(contract §3). The output that `message_start` states is that of its first moment, and no use.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from channels.dialects.messages.event import (
    Delta,
    Event,
    Message,
    block_characters,
    content_characters,
    read_counts,
)
from channels.dialects.meter import UNREADABLE, AnswerMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.usage import PartialUsage, Usage

_EVENT = msgspec.json.Decoder(Event)
_MESSAGE = msgspec.json.Decoder(Message)
_END = "message_stop"


class MessagesMeter(AnswerMeter):
    """Follows one answer. `finished`: `message_stop` was seen, or the answer came whole."""

    __slots__ = ("_fresh", "_output", "_read", "_thought", "_written")

    _error_names: ClassVar[tuple[str, ...]] = ("type", "code")

    def __init__(self) -> None:
        super().__init__()
        # The usage as stated so far.
        self._fresh: int | None = None
        self._read = 0
        self._written = 0
        self._output: int | None = None
        self._thought = 0

    @property
    def partial_usage(self) -> PartialUsage | None:
        if self._usage is not None or (self._fresh is None and self._output is None):
            return None
        stated = None if self._fresh is None else self._made(fresh=self._fresh, output=0)
        return PartialUsage(input=stated, output_tokens=self._output)

    def event(self, data: bytes) -> bool:
        """Read one event's data. Never raises; True, as every event is forwarded."""
        try:
            event = _EVENT.decode(data)
        except UNREADABLE:
            self._take_loosely(data)
        else:
            self._take(event)
        return True

    def body(self, body: bytes) -> None:
        """Read a whole answer. Raises UpstreamMalformed when it is not a JSON object."""
        try:
            message = _MESSAGE.decode(body)
        except UNREADABLE:
            value = read_loosely(body)
            if not isinstance(value, dict):
                raise UpstreamMalformed("not a JSON object") from None
            message = _message(value)
        self._take_message(message, is_whole=True)
        self._note_error(message.error)
        self.finished = True

    def _take(self, event: Event) -> None:
        delta = event.delta
        if delta is not None:
            if delta.text is not None:
                self.characters += len(delta.text)
            if delta.partial_json is not None:
                self.characters += len(delta.partial_json)
            if delta.thinking is not None:
                self.characters += len(delta.thinking)
            if delta.stop_reason is not None:
                self.finish_reason = fit_name(delta.stop_reason)
        # The default is shared, so an absent member costs no comparison of bytes.
        if event.usage is not NOTHING:
            self._take_usage(event.usage, is_start=False)
        if event.content_block is not NOTHING:
            self.characters += block_characters(event.content_block)
        if event.message is not NOTHING:
            self._take_start(event.message)
        if event.error is not NOTHING:
            self._note_error(event.error)
        if event.type == _END:
            self.finished = True

    def _take_start(self, stated: msgspec.Raw) -> None:
        try:
            message = _MESSAGE.decode(stated)
        except UNREADABLE:
            value = read_loosely(bytes(stated))
            if not isinstance(value, dict):
                self.malformed_events += 1
                return
            message = _message(value)
        self._take_message(message, is_whole=False)

    def _take_message(self, message: Message, *, is_whole: bool) -> None:
        self._note_names(message.id, message.model)
        if message.stop_reason is not None:
            self.finish_reason = fit_name(message.stop_reason)
        self.characters += content_characters(message.content)
        self._take_usage(message.usage, is_start=not is_whole)

    def _take_usage(self, stated: msgspec.Raw, *, is_start: bool) -> None:
        if stated is NOTHING or bytes(stated) == b"null":
            return
        counts = read_counts(stated)
        if counts is None:
            self.malformed_events += 1
            return
        if counts.fresh is not None:
            self._fresh = counts.fresh
        if counts.read is not None:
            self._read = counts.read
        if counts.written is not None:
            self._written = counts.written
        if not is_start:
            if counts.output is not None:
                self._output = counts.output
            if counts.thought is not None:
                self._thought = counts.thought
        if self._fresh is not None and self._output is not None:
            self._usage = self._made(fresh=self._fresh, output=self._output)

    def _made(self, *, fresh: int, output: int) -> Usage:
        return Usage(
            input_tokens=fresh + self._read + self._written,
            output_tokens=output,
            cached_tokens=self._read,
            cache_write_tokens=self._written,
            reasoning_tokens=min(self._thought, output),
        )

    def _take_loosely(self, data: bytes) -> None:
        """Read what can be read of an event that is not as documented."""
        value = read_loosely(data)
        if not isinstance(value, dict):
            self.malformed_events += 1
            return
        delta = value.get("delta")
        if isinstance(delta, dict):
            said = [text_of(delta.get(name)) for name in Delta.__struct_fields__]
            delta = Delta(*said)
        self._take(
            Event(
                type=text_of(value.get("type")) or "",
                delta=delta if isinstance(delta, Delta) else None,
                usage=raw_of(value.get("usage")),
                message=raw_of(value.get("message")),
                content_block=raw_of(value.get("content_block")),
                error=raw_of(value.get("error")),
            )
        )


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and value.get("type") == _END


def _message(value: dict[str, object]) -> Message:
    return Message(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        stop_reason=text_of(value.get("stop_reason")),
        content=raw_of(value.get("content")),
        usage=raw_of(value.get("usage")),
        error=raw_of(value.get("error")),
    )
