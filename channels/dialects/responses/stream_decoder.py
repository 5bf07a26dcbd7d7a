"""Read a responses stream into canonical events.

What an item says comes several times: in deltas, when a part of it is done, when the item is done,
and in the whole response at the end. It is told when it first comes, once. Items have their index
in the output; their ids are not to be relied on, as some upstreams change them from event to event.
What an item becomes is `items.py`; nothing an upstream sends raises.
"""

from __future__ import annotations

from channels.dialects.error_body import message_in
from channels.dialects.responses.event import ENDS, Response, object_of, read_response
from channels.dialects.responses.event import Event as WireEvent
from channels.dialects.responses.items import ItemKey, ItemReader
from channels.dialects.responses.usage import UsageReader
from channels.json.text import read_json
from channels.translation.failures import UNNAMED, failure_in
from channels.translation.model import (
    Began,
    Ended,
    Event,
    Finished,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    UsageStated,
)


class StreamDecoder:
    """Reads one stream. Made for one attempt, used from one task.

    An `error` event is kept until the response is said to have failed, or until the upstream ends
    the stream: what belongs to the failure, such as its usage, comes in between.
    """

    __slots__ = ("_began", "_ended", "_failed", "_items", "_stated")

    def __init__(self) -> None:
        self._items = ItemReader()
        self._stated = UsageReader()
        self._failed: StreamFailed | None = None
        self._began = False
        self._ended = False

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<responses.StreamDecoder {state}, {self._items}>"

    def take(self, read: WireEvent | None) -> list[Event]:
        """The events that one event of the wire holds; often none. Never raises."""
        return [] if read is None or self._ended else self._take(read)

    def end(self) -> list[Event]:
        """The upstream has closed. A failure that it told before is all there is to say."""
        failed = None if self._ended else self._failed
        self._ended = True
        return [] if failed is None else [failed]

    def _take(self, read: WireEvent) -> list[Event]:
        kind, items = read.type, self._items
        if read.delta is not None:
            return self._take_delta(read, read.delta)
        if kind == "response.output_text.annotation.added":
            return items.cite(_item_key(read), read.content_index or 0, object_of(read.annotation))
        if kind in ("response.output_text.done", "response.refusal.done"):
            part = {"text": read.text, "refusal": read.refusal}
            return items.take_part(_item_key(read), read.content_index or 0, part)
        if kind == "response.content_part.done":
            return items.take_part(_item_key(read), read.content_index or 0, object_of(read.part))
        if kind == "response.function_call_arguments.done":
            return items.finish_arguments(_item_key(read), read.arguments)
        if kind == "response.output_item.added":
            return items.begin_item(_item_key(read), object_of(read.item))
        if kind == "response.output_item.done":
            return items.take_item(_item_key(read), object_of(read.item))
        if kind == "response.created":
            return self._begin(read)
        if kind == "error":
            self._failed = _failure(read)
            return []
        return self._end(read) if kind in ENDS else []

    def _take_delta(self, read: WireEvent, delta: str) -> list[Event]:
        kind, items = read.type, self._items
        if not delta:
            return []
        if kind == "response.output_text.delta":
            items.note_emitted(_item_key(read), read.content_index or 0, len(delta))
            return [TextDelta(delta)]
        if kind == "response.function_call_arguments.delta":
            return items.take_arguments(_item_key(read), delta)
        if kind == "response.refusal.delta":
            items.note_emitted(_item_key(read), read.content_index or 0, 0)
            return [RefusalDelta(delta)]
        if kind == "response.reasoning_summary_text.delta":
            return items.think(_item_key(read), read.summary_index, delta)
        if kind == "response.reasoning_text.delta":
            return items.think_aloud(_item_key(read), read.content_index or 0, delta)
        return []  # of a tool that the provider runs

    def _begin(self, read: WireEvent) -> list[Event]:
        if self._began:
            return []
        self._began = True
        response = read_response(read.response) or Response()
        self._stated.take(response)
        self._items.seed = response.id or ""
        return [Began(response.id or None, response.model or None)]

    def _end(self, read: WireEvent) -> list[Event]:
        """The whole response repeats all items, images too; they are read only if none was told."""
        self._ended = True
        response = read_response(read.response) or Response()
        events: list[Event] = []
        if not self._items.has_emitted:
            output = read_json(bytes(response.output))
            for index, item in enumerate(output if isinstance(output, list) else ()):
                if isinstance(item, dict):
                    events += self._items.take_item(index, item)
        self._stated.take(response)
        if self._stated.usage is not None:
            events.append(UsageStated(self._stated.usage))
        if read.type == "response.failed":
            stated = failure_in(read_json(bytes(response.error)))
            events.append(self._failed or stated or UNNAMED)
        else:
            details = response.incomplete_details
            reason = None if details is None else details.reason
            events += [self._finish(read.type, reason), Ended()]
        return events

    def _finish(self, kind: str, reason: str | None) -> Finished:
        if kind == "response.incomplete":
            return Finished("refusal" if reason == "content_filter" else "length")
        return Finished("tool_calls" if self._items.count else "stop")


def _item_key(read: WireEvent) -> ItemKey:
    """The key of an item: its index, or what there is instead of one."""
    if read.output_index is not None:
        return read.output_index
    stated = read.item_id or object_of(read.item).get("id")
    return stated if isinstance(stated, str) else None


def _failure(read: WireEvent) -> StreamFailed:
    """The failure of an `error` event, whose members are in it or in its `error`."""
    inner = failure_in(read_json(bytes(read.error)))
    return inner or StreamFailed(read.code, message_in(read.message) or UNNAMED.message)
