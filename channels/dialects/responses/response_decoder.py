"""An upstream's response of the responses protocol, streamed or whole, as canonical events.

The content of an item is repeated: in deltas, when a part of it is done, when the item is done, and
in the whole response at the end. It is read at its first occurrence. Items are identified by their
index in the output, because some upstreams change ids from event to event. Nothing that an upstream
sends raises.
"""

from __future__ import annotations

from channels.dialects.error_body import message_in
from channels.dialects.responses.events import (
    ENDS,
    ResponsesEvent,
    StatedResponse,
    object_of,
    read_response,
)
from channels.dialects.responses.items import (
    ItemKey,
    ItemReader,
)
from channels.errors import UpstreamMalformed
from channels.json.lenient import read_json
from channels.translation.codec import Metered
from channels.translation.error_names import UNNAMED, failure_in
from channels.translation.events import (
    Began,
    Ended,
    Event,
    Finished,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    UsageStated,
)
from channels.translation.model import FinishReason


class ResponsesResponseDecoder:
    """Decodes one response. Made for one attempt, used from one task.

    An `error` event is kept until the response is reported as failed, or until the upstream ends
    the stream: the rest of the failure, such as its usage, is sent in between.
    """

    __slots__ = ("_began", "_ended", "_failed", "_items", "_meter")

    def __init__(self, meter: Metered) -> None:
        self._meter = meter
        self._items = ItemReader()
        self._failed: StreamFailed | None = None
        self._began = False
        self._ended = False

    def take_event(self, read: ResponsesEvent | None) -> list[Event]:
        """Return the canonical events of one decoded event; often none. Never raises."""
        return [] if read is None or self._ended else self._take(read)

    def end_stream(self) -> list[Event]:
        """Note the end of the connection, and emit a kept failure."""
        failed = None if self._ended else self._failed
        self._ended = True
        return [] if failed is None else [failed]

    def _take(self, read: ResponsesEvent) -> list[Event]:
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

    def _take_delta(self, read: ResponsesEvent, delta: str) -> list[Event]:
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

    def _begin(self, read: ResponsesEvent) -> list[Event]:
        if self._began:
            return []
        self._began = True
        response = read_response(read.response) or StatedResponse()
        return [self._named(response)]

    def _named(self, response: StatedResponse) -> Began:
        self._items.seed = response.id or ""
        return Began(response.id or None, response.model or None)

    def _end(self, read: ResponsesEvent) -> list[Event]:
        """End with the whole response, which repeats all items, including images.

        They are decoded only if none was emitted.
        """
        self._ended = True
        response = read_response(read.response) or StatedResponse()
        events = [] if self._items.has_emitted else self._take_output(response)
        return events + self._usage() + self._ending(read.type, response)

    def take_body(self, response: StatedResponse) -> list[Event]:
        """Return the canonical events of a whole response, as those of a stream's last event.

        Raises UpstreamMalformed if it has no output, or an error.
        """
        if not bytes(response.output).lstrip().startswith(b"["):
            raise UpstreamMalformed("a response without output")
        events = [self._named(response), *self._take_output(response), *self._usage()]
        events += self._ending(f"response.{response.status}", response)
        if isinstance(failed := events[-1], StreamFailed):
            raise UpstreamMalformed("an error where an answer was promised", failed.code)
        return events

    def _usage(self) -> list[Event]:
        usage = self._meter.shown_usage
        return [] if usage is None else [UsageStated(usage)]

    def _take_output(self, response: StatedResponse) -> list[Event]:
        events: list[Event] = []
        output = read_json(bytes(response.output))
        for index, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                events += self._items.take_item(index, item)
        return events

    def _ending(self, kind: str, response: StatedResponse) -> list[Event]:
        """Return the last events, for the type of a stream's last event."""
        if kind == "response.failed":
            stated = failure_in(read_json(bytes(response.error)))
            return [self._failed or stated or UNNAMED]
        finish: FinishReason = "tool_calls" if self._items.count else "stop"
        if kind == "response.incomplete":
            details = response.incomplete_details
            is_refused = details is not None and details.reason == "content_filter"
            finish = "refusal" if is_refused else "length"
        return [Finished(finish), Ended()]


def _item_key(read: ResponsesEvent) -> ItemKey:
    """Return the key of an item: its index, or else its id."""
    if read.output_index is not None:
        return read.output_index
    stated = read.item_id or object_of(read.item).get("id")
    return stated if isinstance(stated, str) else None


def _failure(read: ResponsesEvent) -> StreamFailed:
    """Return the failure of an `error` event, whose members are in it or in its `error`."""
    inner = failure_in(read_json(bytes(read.error)))
    return inner or StreamFailed(read.code, message_in(read.message) or UNNAMED.message)
