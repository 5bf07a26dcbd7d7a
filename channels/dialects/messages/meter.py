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
    Event,
    Message,
    block_characters,
    content_characters,
    decode_event,
    read_event,
    read_message,
)
from channels.dialects.messages.usage import UsageReader
from channels.dialects.meter import ResponseMeter, fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, is_stated, read_loosely
from channels.usage import PartialUsage, Usage

_END = "message_stop"


class MessagesMeter(ResponseMeter[Event, Event]):
    """Follows one response. `finished`: `message_stop` was seen, or the response came whole."""

    __slots__ = ("_stated",)

    _error_names: ClassVar[tuple[str, ...]] = ("type", "code")

    def __init__(self) -> None:
        super().__init__()
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        return self._stated.partial

    _decode = staticmethod(decode_event)
    read = staticmethod(read_event)

    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""
        message = read_message(body)
        if message is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_message(message, is_whole=True)
        self._note_error(message.error)
        self.finished = True

    def _take(self, event: Event) -> bool:
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
            message = read_message(event.message)
            if message is None:
                self.malformed_events += 1
            else:
                self._take_message(message, is_whole=False)
        if event.error is not NOTHING:
            self._note_error(event.error)
        if event.type == _END:
            self.finished = True
        return True

    def _take_message(self, message: Message, *, is_whole: bool) -> None:
        self._note_names(message.id, message.model)
        if message.stop_reason is not None:
            self.finish_reason = fit_name(message.stop_reason)
        self.characters += content_characters(message.content)
        self._take_usage(message.usage, is_start=not is_whole)

    def _take_usage(self, stated: msgspec.Raw, *, is_start: bool) -> None:
        if is_stated(stated) and not self._stated.take(stated, is_start=is_start):
            self.malformed_events += 1


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and value.get("type") == _END
