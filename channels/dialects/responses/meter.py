"""Read a responses answer as it passes: usage, characters, how it ended.

The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot be
read is passed on and counted in `malformed_events`: it must not end a stream.

What an item says comes several times: in deltas, in the `done` events of its parts, in the item
when it is done, and once more in the whole answer at the end. Deltas are counted as they pass; the
item and the answer only add what no delta has told, as some upstreams send whole items.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from channels.dialects.meter import UNREADABLE, AnswerMeter, fit_name
from channels.dialects.responses.event import (
    Event,
    Response,
    event_of,
    item_characters,
    output_characters,
    read_response,
    read_usage,
)
from channels.errors import UpstreamMalformed
from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of

_EVENT = msgspec.json.Decoder(Event)
_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
# Deltas are text, but for these.
_SOUND = frozenset(("response.audio.delta", "response.output_audio.delta"))
# Some upstreams close this protocol as they would chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


class ResponsesMeter(AnswerMeter):
    """Follows one answer. `finished`: its last event was seen, or it came whole.

    `finish_reason` is the status of the answer, or why it is not complete.
    """

    __slots__ = ("_counted",)

    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")

    def __init__(self) -> None:
        super().__init__()
        # Characters told of each item that is not done, by its place in the output.
        self._counted: dict[int | None, int] = {}

    def event(self, data: bytes) -> bool:
        """Read one event's data. Never raises; True, as every event is forwarded."""
        try:
            event = _EVENT.decode(data)
        except UNREADABLE:
            value = read_loosely(data)
            if isinstance(value, dict):
                self._take(event_of(value))
            elif data.strip() != _FOREIGN_TERMINATOR:
                self.malformed_events += 1
        else:
            self._take(event)
        return True

    def body(self, body: bytes) -> None:
        """Read a whole answer. Raises UpstreamMalformed when it is not a JSON object."""
        response = read_response(body)
        if response is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_response(response)
        self._end(response)

    def _take(self, event: Event) -> None:
        if event.delta is not None and event.type not in _SOUND:
            self._count(event.output_index, len(event.delta))
            return
        if event.item is not NOTHING:
            self._take_item(event)
        if event.error is not NOTHING:
            self._note_error(event.error)
        elif event.type == "error":
            self._note_error(raw_of({"code": event.code, "message": event.message}))
        is_end = event.type in _ENDS
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

    def _take_item(self, event: Event) -> None:
        told = item_characters(event.item)
        if event.type == "response.output_item.done":
            told -= self._counted.pop(event.output_index, 0)
            self.characters += max(0, told)
        else:
            self._count(event.output_index, told)

    def _count(self, place: int | None, characters: int) -> None:
        self.characters += characters
        counted = self._counted
        counted[place] = counted.get(place, 0) + characters

    def _take_response(self, response: Response) -> None:
        self._note_names(response.id, response.model)
        self._note_error(response.error)
        stated = response.usage
        if stated is NOTHING or bytes(stated) == b"null":
            return
        usage = read_usage(stated)
        if usage is None:
            self.malformed_events += 1
        else:
            self._usage = usage

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
    return isinstance(value, dict) and text_of(value.get("type")) in _ENDS
