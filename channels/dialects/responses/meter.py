"""Read a responses answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream.

What an item says comes several times: in deltas, in the `done` events of its parts, in the item
when it is done, and once more in the whole response at the end. Deltas are counted as they pass;
the item and the response only add what no delta has told, as some upstreams send whole items.
"""

from __future__ import annotations

from typing import ClassVar

from channels.dialects.meter import ResponseMeter, fit_name
from channels.dialects.responses.event import (
    ENDS,
    Event,
    Response,
    decode_event,
    item_characters,
    output_characters,
    read_event,
    read_response,
)
from channels.dialects.responses.usage import UsageReader
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.usage import Usage

# Deltas are text, but for these.
_SOUND = frozenset(("response.audio.delta", "response.output_audio.delta"))


class ResponsesMeter(ResponseMeter[Event, Event]):
    """Follows one response. `finished`: its last event was seen, or it came whole.

    `finish_reason` is the status of the response, or why it is not complete.
    """

    __slots__ = ("_counted", "_stated")

    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")

    def __init__(self) -> None:
        super().__init__()
        # Characters counted of each item that is not done, by its index in the output.
        self._counted: dict[int | None, int] = {}
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    _decode = staticmethod(decode_event)
    read = staticmethod(read_event)

    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""
        response = read_response(body)
        if response is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_response(response)
        self._end(response)

    def _take(self, event: Event) -> bool:
        if event.delta is not None and event.type not in _SOUND:
            counted, index = self._counted, event.output_index
            characters = len(event.delta)
            self.characters += characters
            counted[index] = counted.get(index, 0) + characters
            return True
        if event.item is not NOTHING:
            self._take_item(event)
        if event.error is not NOTHING:
            self._note_error(event.error)
        elif event.type == "error":
            self._note_error(raw_of({"code": event.code, "message": event.message}))
        is_end = event.type in ENDS
        if event.response is not NOTHING and (is_end or self.response_id is None):
            response = read_response(event.response)
            if response is None:
                self.malformed_events += 1
            else:
                self._take_response(response)
                if is_end:
                    self._end(response)
        if is_end:
            self.finished = True
            if event.type == "response.failed" and self.error_seen is None:
                self._note_error(raw_of({"code": "failed"}))
        return True

    def _take_item(self, event: Event) -> None:
        count = item_characters(event.item)
        if event.type == "response.output_item.done":
            count -= self._counted.pop(event.output_index, 0)
            self.characters += max(0, count)
        else:
            self.characters += count
            self._counted[event.output_index] = self._counted.get(event.output_index, 0) + count

    def _take_response(self, response: Response) -> None:
        self._note_names(response.id, response.model)
        self._note_error(response.error)
        if not self._stated.take(response):
            self.malformed_events += 1

    def _end(self, response: Response) -> None:
        self.finished = True
        self.characters = max(self.characters, output_characters(response.output))
        details = response.incomplete_details
        reason = (details.reason if details else None) or response.status
        if reason is not None:
            self.finish_reason = fit_name(reason)
        if response.status == "failed" and self.error_seen is None:
            self._note_error(raw_of({"code": "failed"}))


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and text_of(value.get("type")) in ENDS
