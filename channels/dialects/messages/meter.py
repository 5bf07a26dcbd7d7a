"""Meters a messages response as it is passed on: usage, characters, how it ended.

The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
on and counted in `malformed_events`: it must not end a stream.

Usage has two parts: `message_start` has the input, `message_delta` the output so far, and changed
values again. Its numbers are running totals. The output in `message_start` is only the first
moment's, and is ignored.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from channels.dialects.messages import events
from channels.dialects.messages.events import read_event
from channels.dialects.messages.usage import MessagesUsageReader
from channels.dialects.meter import StatedMeter, fit_name
from channels.dialects.text_frame import TextFrame, frame_of
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.json import lenient

_END = "message_stop"


class MessagesMeter(StatedMeter[events.MessagesEvent, MessagesUsageReader]):
    """Meters one response. `finished`: `message_stop` was received, or the response is whole.

    Some upstreams leave the terminator out: a stream that has stated why it stopped is complete if
    its body has ended properly.
    """

    _error_names: ClassVar[tuple[str, ...]] = ("type", "code")

    def __init__(self) -> None:
        self._stated = MessagesUsageReader()
        self._has_stopped = False  # a stop reason was received

    @property
    def shown_usage(self) -> Usage | None:
        return self._stated.displayed

    read_event = staticmethod(read_event)

    @staticmethod
    def frame_of(event: bytes, read: events.MessagesEvent | None) -> TextFrame | None:
        """See ResponseMeter."""
        if read is None or read.type != "content_block_delta" or read.delta is None:
            return None
        delta, others = read.delta, (read.usage, read.message, read.content_block, read.error)
        if (
            not delta.text
            or delta.partial_json is not None
            or delta.thinking is not None
            or delta.stop_reason
            or any(one is not lenient.NULL for one in others)
        ):
            return None
        return frame_of(event, b"text", delta.text)

    def take_body(self, body: bytes) -> events.StatedMessage:
        """Meter and return a whole response. Raises UpstreamMalformed if it is no JSON object."""
        message = events.read_body(body)
        if message is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_message(message, is_whole=True)
        self._note_error(message.error)
        self.finished = True
        return message

    def take_event(self, event: events.MessagesEvent | None) -> bool:
        """Meter a decoded event. True: every client gets it."""
        if event is None:
            self.malformed_events += 1
            return True
        delta = event.delta
        if delta is not None:
            if delta.text is not None:
                self.characters += len(delta.text)
            if delta.partial_json is not None:
                self.characters += len(delta.partial_json)
            if delta.thinking is not None:
                self.characters += len(delta.thinking)
            if delta.stop_reason:
                self.finish_reason = fit_name(delta.stop_reason)
                self._has_stopped = True
        # The default is shared, so an absent member costs no comparison of bytes.
        if event.usage is not lenient.NULL:
            container = lenient.NULL if delta is None else delta.container
            self._take_usage(event.usage, is_start=False, container=container)
        if event.content_block is not lenient.NULL:
            self.has_choice = True
            if bytes(event.content_block) not in events.EMPTY_TEXT:
                self.characters += events.block_characters(event.content_block)
                self._see_search(event.content_block)
        if event.message is not lenient.NULL:
            message = events.read_message(event.message)
            if message is None:
                self.malformed_events += 1
            else:
                self._take_message(message, is_whole=False)
        if event.error is not lenient.NULL:
            self._note_error(event.error)
        if event.type == _END:
            self.finished = True
        return True

    def end_of_body(self) -> None:
        if self.error_seen is None and self._has_stopped:
            self.finished = True

    def _take_message(self, message: events.StatedMessage, *, is_whole: bool) -> None:
        self._note_names(message.id, message.model)
        if message.stop_reason:
            self.finish_reason = fit_name(message.stop_reason)
        self.has_choice = self.has_choice or events.has_blocks(message.content)
        self.characters += events.content_characters(message.content)
        self._take_usage(message.usage, is_start=not is_whole, container=message.container)

    def _take_usage(self, stated: msgspec.Raw, *, is_start: bool, container: msgspec.Raw) -> None:
        if not lenient.is_stated(stated):
            return
        if not self._stated.take_usage(
            stated, is_start=is_start, container=container, characters=self.characters
        ):
            self.malformed_events += 1

    def _see_search(self, block: msgspec.Raw) -> None:
        """Count a search of a stream, whose usage may never be stated."""
        try:
            found = events.TOOL_BLOCK.decode(block)
        except lenient.UNREADABLE:
            return
        if found.type == "server_tool_use" and found.name == "web_search":
            self._stated.saw_search()
        elif found.type == "web_search_tool_result" and bytes(found.content)[:1] == b"{":
            self._stated.saw_search(failed=True)  # in a list's place there is an error


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    value = lenient.read_loosely(data, mends=False)
    return isinstance(value, dict) and value.get("type") == _END
