"""Meters a response of the responses protocol as it is passed on: usage, characters, its end.

The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
on and counted in `malformed_events`: it must not end a stream.

The content of an item is repeated: in deltas, in the `done` events of its parts, in the item when
it is done, and in the whole response at the end. Deltas are counted as they are passed on; the
item and the response only add what no delta had, because some upstreams send whole items.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from channels.dialects.meter import StatedMeter, fit_name
from channels.dialects.responses import events
from channels.dialects.responses.events import read_event
from channels.dialects.responses.usage import ResponsesUsageReader, ToolCounter
from channels.errors import UpstreamMalformed
from channels.json import lenient
from channels.json.weight import is_heavy_event


def item_characters(item: msgspec.Raw, tools: ToolCounter | None) -> int:
    """Count an output item's characters: text, refusal, thinking, a call's name and arguments.

    A call of a tool that the provider ran is counted in `tools`, if that is given.
    """
    try:
        fields = events.ITEM.decode(item)
    except (msgspec.DecodeError, RecursionError):
        return 0
    if tools is not None:
        tools.take(fields.type, item)
    count = sum(map(lenient.length_of, (fields.name, fields.arguments, fields.input, fields.code)))
    for parts in (fields.content, fields.summary):
        if parts is not lenient.NULL:
            count += lenient.characters_of(lenient.read_json(bytes(parts)))
    return count


# Deltas are text, except these.
_SOUND = frozenset(("response.audio.delta", "response.output_audio.delta"))


class ResponsesMeter(StatedMeter[events.ResponsesEvent, ResponsesUsageReader]):
    """Meters one response. `finished`: its last event was received, or it is whole.

    `finish_reason` is the status of the response, or why it is incomplete.
    """

    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    # The last event repeats the response with its tools and the probabilities of its tokens: the
    # charged counts are read, and its texts are skipped if it has too many values.
    reads_any_size: ClassVar[bool] = True

    def __init__(self) -> None:
        # Characters counted of each unfinished item, by its index in the output.
        self._counted: dict[int | None, int] = {}
        self._stated = ResponsesUsageReader()
        self._has_reason = False  # why it is incomplete

    read_event = staticmethod(read_event)

    @property
    def has_answer(self) -> bool:
        """See ResponseMeter. Every response has a status: only a reason besides it counts."""
        return self.has_choice or self.characters > 0 or self._has_reason

    def take_body(self, body: bytes) -> events.StatedResponse:
        """Meter and return a whole response. Raises UpstreamMalformed if it is no JSON object."""
        response = events.read_response(body)
        if response is None:
            raise UpstreamMalformed("not a JSON object")
        self._end(response)
        return response

    def take_event(self, event: events.ResponsesEvent | None) -> bool:
        """Meter a decoded event. True: every client gets it."""
        if event is None:
            self.malformed_events += 1
            return True
        if event.delta is not None and event.type not in _SOUND:
            counted, index = self._counted, event.output_index
            characters = len(event.delta)
            self.characters += characters
            counted[index] = counted.get(index, 0) + characters
        else:
            self._take_whole(event)
        return True

    def _take_whole(self, event: events.ResponsesEvent) -> None:
        """Meter an event without a delta: an item, an error, or the response."""
        if event.item is not lenient.NULL:
            self.has_choice = True
            self._take_item(event)
        if event.error is not lenient.NULL:
            self._note_error(event.error)
        elif event.type == "error":
            self._note_error(lenient.raw_of({"code": event.code, "message": event.message}))
        is_end = event.type in events.ENDS
        if event.response is not lenient.NULL and (is_end or self.response_id is None):
            is_heavy = is_heavy_event(bytes(event.response))
            response = events.read_response(event.response, mends=not is_heavy)
            if response is None:
                self.malformed_events += 1
            else:
                if is_heavy:
                    response.output = lenient.NULL
                if is_end:
                    self._end(response)
                else:
                    self._take_response(response)
        if is_end:
            self.finished = True
            if event.type == "response.failed" and self.error_seen is None:
                self._note_error(lenient.raw_of({"code": "failed"}))

    def _take_item(self, event: events.ResponsesEvent) -> None:
        is_done = event.type == "response.output_item.done"
        tools = self._stated.counter if is_done else None
        if is_heavy_event(bytes(event.item)):
            count = 0
            if tools is not None:
                tools.take_item(event.item)
        else:
            count = item_characters(event.item, tools)
        if is_done:
            count -= self._counted.pop(event.output_index, 0)
            self.characters += max(0, count)
        else:
            self.characters += count
            self._counted[event.output_index] = self._counted.get(event.output_index, 0) + count

    def _take_response(
        self, response: events.StatedResponse, listed: ToolCounter | None = None
    ) -> None:
        self._note_names(response.id, response.model)
        self._note_error(response.error)
        if not self._stated.take_usage(response, listed, self.characters):
            self.malformed_events += 1

    def _end(self, response: events.StatedResponse) -> None:
        self.finished = True
        listed = ToolCounter()
        items = events.items_in(response.output)
        self.has_choice = self.has_choice or bool(items)
        characters = sum(item_characters(item, listed) for item in items)
        self.characters = max(self.characters, characters)
        self._take_response(response, listed)
        details = response.incomplete_details
        reason = details.reason if details else None
        self._has_reason = bool(reason)
        reason = reason or response.status
        if reason is not None:
            self.finish_reason = fit_name(reason)
        if response.status == "failed" and self.error_seen is None:
            self._note_error(lenient.raw_of({"code": "failed"}))


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    value = lenient.read_loosely(data, mends=False)
    return isinstance(value, dict) and lenient.text_of(value.get("type")) in events.ENDS
