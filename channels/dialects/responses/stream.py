"""Responses streams, to canonical events and back.

The content of an item is repeated: in deltas, when a part of it is done, when the item is done, and
in the whole response at the end. It is read at its first occurrence. Items are identified by their
index in the output, because some upstreams change ids from event to event. Nothing that an upstream
sends raises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.error_body import message_in
from channels.dialects.responses.client_tools import BY_CALL
from channels.dialects.responses.events import (
    ENDS,
    ResponsesEvent,
    StatedResponse,
    object_of,
    read_response,
)
from channels.dialects.responses.items import (
    REFUSAL,
    TEXT,
    ItemKey,
    ItemReader,
    image_members,
    message_part,
    new_item,
    summary_part,
)
from channels.dialects.responses.response_object import ending_of, response_object
from channels.dialects.responses.signatures import proof_member
from channels.dialects.responses.tool_calls import call_item, custom_input
from channels.dialects.responses.tool_names import CUSTOM, named_call
from channels.dialects.responses.usage import ResponsesUsageReader, tools_in, write_usage
from channels.dialects.usage_details import tier_member
from channels.errors import UpstreamMalformed
from channels.json.lenient import dumps, read_json
from channels.translation.call_arguments import Arguments, call_arguments
from channels.translation.error_names import UNNAMED, failure_in, failure_named
from channels.translation.event_encoder import EventEncoder
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.media import markdown
from channels.translation.model import Media


class ResponsesStreamDecoder:
    """Decodes one stream. Made for one attempt, used from one task.

    An `error` event is kept until the response is reported as failed, or until the upstream ends
    the stream: the rest of the failure, such as its usage, is sent in between.
    """

    __slots__ = ("_began", "_ended", "_failed", "_items", "_stated")

    def __init__(self) -> None:
        self._items = ItemReader()
        self._stated = ResponsesUsageReader()
        self._failed: StreamFailed | None = None
        self._began = False
        self._ended = False

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<ResponsesStreamDecoder {state}, {self._items}>"

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
        self._stated.take_usage(response)
        return [self._named(response)]

    def _named(self, response: StatedResponse) -> Began:
        self._items.seed = response.id or ""
        return Began(response.id or None, response.model or None)

    def _end(self, read: ResponsesEvent) -> list[Event]:
        """End with the whole response, which repeats all items, including images.

        They are decoded only if none was emitted.
        """
        return self._take_whole(read.type, read_response(read.response) or StatedResponse())

    def take_body(self, response: StatedResponse) -> list[Event]:
        """Return the canonical events of a whole response, as those of a stream's last event.

        Raises UpstreamMalformed if it has no output, or an error.
        """
        if not bytes(response.output).lstrip().startswith(b"["):
            raise UpstreamMalformed("a response without output")
        kind = f"response.{response.status or 'completed'}"
        began = self._named(response)
        events = self._take_whole(kind if kind in ENDS else "response.completed", response)
        if isinstance(failed := events[-1], StreamFailed):
            raise UpstreamMalformed("an error where an answer was promised", failed.code)
        return [began, *events]

    def _take_whole(self, kind: str, response: StatedResponse) -> list[Event]:
        """Return the events of the response that ends a stream; `kind` is one of `ENDS`."""
        self._ended = True
        events: list[Event] = []
        if not self._items.has_emitted:
            output = read_json(bytes(response.output))
            for index, item in enumerate(output if isinstance(output, list) else ()):
                if isinstance(item, dict):
                    events += self._items.take_item(index, item)
        self._stated.take_usage(response, tools_in(response.output))
        if self._stated.usage is not None:
            events.append(UsageStated(self._stated.usage))
        if kind == "response.failed":
            stated = failure_in(read_json(bytes(response.error)))
            events.append(self._failed or stated or UNNAMED)
        else:
            details = response.incomplete_details
            reason = None if details is None else details.reason
            events += [self._finish(kind, reason), Ended()]
        return events

    def _finish(self, kind: str, reason: str | None) -> Finished:
        if kind == "response.incomplete":
            return Finished("refusal" if reason == "content_filter" else "length")
        return Finished("tool_calls" if self._items.count else "stop")


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


# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(slots=True, eq=False)
class _OpenItem:
    """An open item: `head` is the prefix of its events, `item` its form when added.

    A message has the `kind` of its open part, and the `content` of those done. `pieces` are the
    text of the open part, or of a thought.
    """

    index: int
    item: dict[str, Any]
    head: bytes
    kind: str = ""
    content: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _OpenCall:
    """An open call; without an item if that is only added when the call is complete."""

    open: _OpenItem | None
    began: CallBegan
    is_custom: bool
    arguments: Arguments = field(default_factory=Arguments)


class ResponsesStreamEncoder(EventEncoder):
    """Encodes one response's stream. Made for one attempt, used from one task.

    response.created and response.in_progress, then each item from output_item.added to
    output_item.done, at the end response.completed or response.incomplete. The items are kept until
    then, because the last event repeats them. The beginning is kept until there is content, so that
    another channel may still be tried, the end until the upstream has ended: a cut stream has no
    last event (spec: Stream failure behaviour).

    The protocol always states usage, so `include_usage` has no effect.
    """

    __slots__ = (
        "_begun_calls",
        "_calls",
        "_created",
        "_id",
        "_model",
        "_open",
        "_output",
        "_sequence",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._id = id
        self._created = created
        self._model = model
        self._sequence = 0
        self._output: list[dict[str, Any]] = []  # items, open ones as they were added
        self._open: _OpenItem | None = None  # the open message or thought
        # Open calls, taken from the front, where a plain dict would skip removed entries.
        self._calls: OrderedDict[int, _OpenCall] = OrderedDict()
        self._begun_calls: set[int] = set()

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._sequence else "new"
        return f"<ResponsesStreamEncoder {state}, {len(self._output)} items>"

    # --- Events ---

    def _event(self, kind: bytes, members: bytes) -> bytes:
        """Encode an event; `members` are the inside of a JSON object."""
        number = self._sequence
        self._sequence = number + 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (
            kind,
            kind,
            number,
            members,
        )

    def _response_event(self, kind: bytes, **members: Any) -> bytes:
        output = self._output if "status" in members else []
        whole = response_object(self._id, self._created, self._model, output, **members)
        return self._event(kind, b'"response":' + dumps(whole))

    def _start(self) -> bytes:
        """Return the events before any item, once."""
        if self._sequence:
            return b""
        created = self._response_event(b"response.created")
        return created + self._response_event(b"response.in_progress")

    def _item_event(self, kind: bytes, index: int, item: Mapping[str, Any]) -> bytes:
        return self._event(kind, b'"output_index":%d,"item":' % index + dumps(item))

    def _add(self, kind: str, **members: Any) -> tuple[_OpenItem, bytes]:
        """Add an item. It ends the open message or thought, and complete calls."""
        before = self._start() + self._close() + self._close_calls(only_whole=True)
        one, added = self._append(kind, **members)
        return one, before + added

    def _append(self, kind: str, **members: Any) -> tuple[_OpenItem, bytes]:
        """Add an item while only calls are open."""
        index = len(self._output)
        item = new_item(self._id, index, kind, **members)
        self._output.append(item)
        head = b'"item_id":' + dumps(item["id"]) + b',"output_index":%d' % index
        return _OpenItem(index, item, head), self._item_event(
            b"response.output_item.added", index, item
        )

    def _finish(self, one: _OpenItem, **members: Any) -> bytes:
        """Write the final form of an item."""
        item = self._output[one.index] = {**one.item, **members}
        return self._item_event(b"response.output_item.done", one.index, item)

    # --- Messages ---

    def _text(self, text: str) -> bytes:
        return self._words(TEXT, text)

    def _refusal(self, text: str) -> bytes:
        return self._words(REFUSAL, text)

    def _words(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        written = b""
        message = self._open
        if message is None or message.kind != kind:
            message, written = self._begin_words(kind)
        message.pieces.append(text)
        head = message.head + b',"content_index":%d,"delta":' % len(message.content)
        if kind == REFUSAL:
            return written + self._event(b"response.refusal.delta", head + dumps(text))
        delta = self._event(b"response.output_text.delta", head + dumps(text) + b',"logprobs":[]')
        return written + delta if written else delta

    def _begin_words(self, kind: str) -> tuple[_OpenItem, bytes]:
        """Begin a part, in the open message or in a new one."""
        message = self._open
        if message is None or not message.kind:
            message, written = self._add(
                "message", status="in_progress", role="assistant", content=[]
            )
            self._open = message
        else:
            written = self._close_part(message)
        message.kind = kind
        added = self._part_event(b"response.content_part.added", message, message_part(kind, ""))
        return message, written + added

    def _part_event(self, kind: bytes, message: _OpenItem, part: Mapping[str, Any]) -> bytes:
        head = message.head + b',"content_index":%d,"part":' % len(message.content)
        return self._event(kind, head + dumps(part))

    def _close_part(self, message: _OpenItem) -> bytes:
        text = "".join(message.pieces)
        message.pieces.clear()
        head = message.head + b',"content_index":%d,' % len(message.content)
        if message.kind == REFUSAL:
            done = self._event(b"response.refusal.done", head + b'"refusal":' + dumps(text))
        else:
            members = head + b'"text":' + dumps(text) + b',"logprobs":[]'
            done = self._event(b"response.output_text.done", members)
        part = message_part(message.kind, text)
        done += self._part_event(b"response.content_part.done", message, part)
        message.content.append(part)
        return done

    def _close(self, **proof: Any) -> bytes:
        """Finish the open message or thought; `proof` is a thought's."""
        one, self._open = self._open, None
        if one is None:
            return b""
        if one.kind:
            part_done = self._close_part(one)
            return part_done + self._finish(one, status="completed", content=one.content)
        text = "".join(one.pieces)
        written = b""
        if text:
            head = one.head + b',"summary_index":0,'
            members = head + b'"text":' + dumps(text)
            written += self._event(b"response.reasoning_summary_text.done", members)
            members = head + b'"part":' + dumps(summary_part(text))
            written += self._event(b"response.reasoning_summary_part.done", members)
        proof = proof or proof_member(None, None, None)
        return written + self._finish(one, summary=[summary_part(text)] if text else [], **proof)

    # --- Thoughts and media ---

    def _thinking(self, event: ThinkingDelta) -> bytes:
        written = b""
        if event.text and not event.redacted:
            written = self._think(event.text)
        if not (event.signature or event.redacted):
            return written
        proof = proof_member(event.signature, event.redacted, event.signer)
        if event.redacted or self._open is None or self._open.kind:
            self._open, added = self._add_thought(written)
            written = added
        return written + self._close(**proof)

    def _add_thought(self, written: bytes) -> tuple[_OpenItem, bytes]:
        thought, added = self._add("reasoning", summary=[])
        return thought, written + added

    def _think(self, text: str) -> bytes:
        """Add text to a thought."""
        thought, written = self._open, b""
        if thought is None or thought.kind:
            thought, written = self._add_thought(b"")
            self._open = thought
        head = thought.head + b',"summary_index":0,'
        if not thought.pieces:
            members = head + b'"part":' + dumps(summary_part(""))
            written += self._event(b"response.reasoning_summary_part.added", members)
        thought.pieces.append(text)
        members = head + b'"delta":' + dumps(text)
        return written + self._event(b"response.reasoning_summary_text.delta", members)

    def _media(self, media: Media) -> bytes:
        image = image_members(media)
        if image is None:
            return self._text(markdown(media))
        one, written = self._add("image_generation_call", status="in_progress", result=None)
        return written + self._finish(one, **image)

    # --- Calls ---

    def _call_began(self, event: CallBegan) -> bytes:
        if event.index in self._begun_calls:
            return b""
        self._begun_calls.add(event.index)
        written = b""
        if event.signature:
            # A call has no member for a proof: it is that of a thought before it.
            thought, written = self._add("reasoning", summary=[])
            written += self._finish(thought, **proof_member(event.signature, None, event.signer))
        kind, members = call_item(event.name, event.id, None)
        one: _OpenItem | None = None
        if kind in BY_CALL:  # clients read the command when the item begins
            written += self._start() + self._close() + self._close_calls(only_whole=True)
        else:
            one, added = self._add(kind, status="in_progress", **members)
            written += added
        self._calls[event.index] = _OpenCall(one, event, named_call(event.name)[0] == CUSTOM)
        return written

    def _call_delta(self, event: CallDelta) -> bytes:
        call = self._calls.get(event.index)
        if call is None or not event.arguments:
            return b""
        call.arguments.add(event.arguments)
        if call.open is None or call.is_custom:
            return b""  # its arguments are sent once they are complete
        return self._arguments_delta(call.open, event.arguments)

    def _arguments_delta(self, one: _OpenItem, arguments: str) -> bytes:
        members = one.head + b',"delta":' + dumps(arguments)
        return self._event(b"response.function_call_arguments.delta", members)

    def _close_calls(self, *, only_whole: bool) -> bytes:
        """Finish open calls, up to the first incomplete one or all of them."""
        written = []
        while self._calls:
            index, call = next(iter(self._calls.items()))
            if only_whole and not call.arguments.is_whole():
                break
            del self._calls[index]
            written.append(self._close_call(call))
        return b"".join(written)

    def _close_call(self, call: _OpenCall) -> bytes:
        stated, one = call.arguments.text(), call.open
        arguments = call_arguments(stated)
        if one is None:
            kind, members = call_item(call.began.name, call.began.id, arguments)
            one, written = self._append(kind, status="in_progress", **members)
            return written + self._finish(one, status="completed")
        written = b""
        if call.is_custom:
            text = custom_input(arguments)
            head = one.head + b","
            delta = head + b'"delta":' + dumps(text)
            written += self._event(b"response.custom_tool_call_input.delta", delta)
            done = head + b'"input":' + dumps(text)
            written += self._event(b"response.custom_tool_call_input.done", done)
            return written + self._finish(one, status="completed", input=text)
        if not stated.strip():  # arguments are an object, even if empty
            written += self._arguments_delta(one, arguments)
        name = one.item["name"]
        done = one.head + b',"name":' + dumps(name) + b',"arguments":' + dumps(arguments)
        written += self._event(b"response.function_call_arguments.done", done)
        return written + self._finish(one, status="completed", arguments=arguments)

    # --- The end ---

    def _failed(self, event: StreamFailed) -> bytes:
        """Encode the error as an event, and the failed response; open items stay unfinished.

        The event has its documented members besides an `error`, which libraries raise.
        """
        named = failure_named(event.code)
        error = {"code": named.chat_code, "message": event.message}
        inner = {"type": named.chat_type, **error, "param": None}
        members = dumps({**error, "param": None, "error": inner})[1:-1]
        written = self._start() + self._event(b"error", members)
        return written + self._response_event(b"response.failed", status="failed", error=error)

    def _end(self) -> bytes:
        finished = self._finished or Finished("stop")
        written = self._start()
        if finished.reason == "refusal" and finished.explanation and not self._has_refusal:
            written += self._refusal(finished.explanation)
        written += self._close() + self._close_calls(only_whole=False)
        ending = ending_of(finished.reason)
        kind = b"response." + ending["status"].encode()
        usage, tier = write_usage(self._usage), tier_member(self._usage)
        return written + self._response_event(kind, **ending, usage=usage, **tier)
