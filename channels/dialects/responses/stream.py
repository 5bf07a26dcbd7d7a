"""Decode a responses stream to canonical events, and a whole response as the end of one.

The content of an item is repeated: in deltas, when a part of it is done, when the item is done, and
in the whole response at the end. It is emitted at its first occurrence. Items are identified by
their index in the output, because some upstreams change ids from event to event. Nothing that an
upstream sends raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.error_body import message_in
from channels.dialects.responses.decode import proven
from channels.dialects.responses.events import (
    ENDS,
    Response,
    UsageReader,
    object_of,
    read_response,
    tools_in,
)
from channels.dialects.responses.events import Event as UpstreamEvent
from channels.errors import UpstreamMalformed
from channels.json.lenient import read_json
from channels.translation import model
from channels.translation.codec import folded
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
    stated_type,
)
from channels.translation.tool_calls import UNNAMED, WaitingArguments, failure_in, made_id

# The items of a response as canonical events, each content once.
#
# A message has parts with text, refusals and citations; function calls are numbered; an image made
# by the provider is sent whole. Web searches and other calls that the provider runs are ignored:
# they matter to the client only by the model's text.

# An index in the output, or an id if an upstream sends no index.
ItemKey = int | str | None
# A paragraph of an item's thinking: whether it is in its summary, and its index.
_Step = tuple[bool, int | None]

# Parts of a reasoning item, which are never visible text.
_THOUGHTS = ("reasoning_text", "summary_text")
_FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "webp": "image/webp"}


@dataclass(slots=True)
class _Part:
    """A part of a message: the offset of its text in the response, and what was emitted."""

    start: int
    is_emitted: bool = False
    citations: int = 0


@dataclass(slots=True)
class _Call:
    """A function call.

    `waiting` are arguments kept before its name, or because they may mean no arguments.
    """

    index: int
    has_begun: bool = False
    has_arguments: bool = False
    waiting: WaitingArguments = field(default_factory=WaitingArguments)


class ItemReader:
    """Decodes the items of one response. `seed` derives missing ids."""

    __slots__ = ("_calls", "_characters", "_parts", "_thoughts", "_whole", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self._characters = 0
        self._parts: dict[tuple[ItemKey, int], _Part] = {}
        self._calls: dict[ItemKey, _Call] = {}
        self._thoughts: dict[ItemKey, _Step] = {}  # the last one emitted
        self._whole: set[ItemKey] = set()  # items emitted whole

    def __repr__(self) -> str:
        return f"<ItemReader {self._characters} characters, {self.count} calls>"

    @property
    def count(self) -> int:
        """The number of function calls."""
        return len(self._calls)

    @property
    def has_emitted(self) -> bool:
        """Whether any item had content."""
        return bool(self._parts or self._calls or self._thoughts or self._whole)

    def note_emitted(self, item_key: ItemKey, content: int, characters: int) -> None:
        """Note that text, or a refusal, of a part was emitted."""
        self._part(item_key, content).is_emitted = True
        self._characters += characters

    def cite(self, item_key: ItemKey, content: int, annotation: Mapping[str, Any]) -> list[Event]:
        """Return the source of a part's text; other annotations refer to files of the provider."""
        url = annotation.get("url")
        part = self._part(item_key, content)
        part.citations += 1
        if annotation.get("type") != "url_citation" or not isinstance(url, str):
            return []
        start, end = annotation.get("start_index"), annotation.get("end_index")
        title = annotation.get("title")
        return [
            Citation(
                url,
                title if isinstance(title, str) else "",
                part.start + start if type(start) is int else None,
                part.start + end if type(end) is int else None,
            )
        ]

    def take_part(self, item_key: ItemKey, content: int, part: Mapping[str, Any]) -> list[Event]:
        """Return what was not emitted of a part that is done."""
        if part.get("type") in _THOUGHTS:
            return self._take_thought(item_key, content, part)
        events: list[Event] = []
        known = self._part(item_key, content)
        text, refusal = part.get("text"), part.get("refusal")
        if not known.is_emitted:
            if isinstance(text, str) and text:
                self.note_emitted(item_key, content, len(text))
                events.append(TextDelta(text))
            elif isinstance(refusal, str) and refusal:
                self.note_emitted(item_key, content, 0)
                events.append(RefusalDelta(refusal))
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[known.citations :]:
                if isinstance(annotation, dict):
                    events += self.cite(item_key, content, annotation)
        return events

    def begin_item(self, item_key: ItemKey, item: Mapping[str, Any]) -> list[Event]:
        """Begin an item: only the name of a function call matters."""
        return self._begin_call(item_key, item) if item.get("type") == "function_call" else []

    def take_item(self, item_key: ItemKey, item: Mapping[str, Any]) -> list[Event]:
        """Return what was not emitted of an item that is done."""
        kind = item.get("type")
        if kind == "message":
            parts = item.get("content")
            events: list[Event] = []
            for content, part in enumerate(parts if isinstance(parts, list) else ()):
                if isinstance(part, dict):
                    events += self.take_part(item_key, content, part)
            return events
        if kind == "function_call":
            arguments = item.get("arguments")
            stated = arguments if isinstance(arguments, str) else None
            return [*self._begin_call(item_key, item), *self.finish_arguments(item_key, stated)]
        if item_key in self._whole:
            return []
        if kind == "image_generation_call":
            return self._take_image(item_key, item)
        return self._take_reasoning(item_key, item) if kind == "reasoning" else []

    def take_arguments(self, item_key: ItemKey, arguments: str) -> list[Event]:
        """Add a piece of a call's arguments, which is kept until its name is known."""
        call = self._call(item_key)
        if call.has_arguments:
            return [CallDelta(call.index, arguments)]
        call.waiting.add(arguments)
        return _emit_arguments(call)

    def finish_arguments(self, item_key: ItemKey, arguments: str | None) -> list[Event]:
        """Add all of a call's arguments, unless they were sent in pieces."""
        call = self._call(item_key)
        if call.has_arguments or call.waiting or not arguments:
            return []
        return self.take_arguments(item_key, arguments)

    def think(self, item_key: ItemKey, summary: int | None, text: str) -> list[Event]:
        """Add to the summary of an item's thinking; its parts are paragraphs."""
        return self._think(item_key, (True, summary), text)

    def think_aloud(self, item_key: ItemKey, content: int, text: str) -> list[Event]:
        """Add to an item's thinking itself, which some upstreams show."""
        self._part(item_key, content).is_emitted = True
        return self._think(item_key, (False, content), text)

    def _think(self, item_key: ItemKey, step: _Step, text: str) -> list[Event]:
        is_next = item_key in self._thoughts and self._thoughts[item_key] != step
        self._thoughts[item_key] = step
        return [ThinkingDelta(f"\n\n{text}" if is_next else text)]

    def _take_thought(
        self, item_key: ItemKey, content: int, part: Mapping[str, Any]
    ) -> list[Event]:
        """Return a part of a thought that is done.

        A thought whose summary was emitted is not emitted again.
        """
        text, last_step = part.get("text"), self._thoughts.get(item_key)
        if self._part(item_key, content).is_emitted or (last_step is not None and last_step[0]):
            return []
        return self.think_aloud(item_key, content, text) if isinstance(text, str) and text else []

    def _part(self, item_key: ItemKey, content: int) -> _Part:
        key = (item_key, content)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part(self._characters)
        return part

    def _call(self, item_key: ItemKey) -> _Call:
        call = self._calls.get(item_key)
        if call is None:
            call = self._calls[item_key] = _Call(len(self._calls))
        return call

    def _begin_call(self, item_key: ItemKey, item: Mapping[str, Any]) -> list[Event]:
        call = self._call(item_key)
        if call.has_begun:
            return []
        call.has_begun = True
        call_id, name = item.get("call_id") or item.get("id"), item.get("name")
        return [
            CallBegan(
                call.index,
                call_id if isinstance(call_id, str) else made_id(self.seed, str(call.index)),
                name if isinstance(name, str) else "",
            ),
            *_emit_arguments(call),
        ]

    def _take_image(self, item_key: ItemKey, item: Mapping[str, Any]) -> list[Event]:
        data = item.get("result")
        if not isinstance(data, str) or not data:
            return []  # it was not to be made; the model gives the reason
        self._whole.add(item_key)
        stated = _FORMATS.get(str(item.get("output_format")), "image/png")
        return [MediaDelta(Media("image", stated_type(stated, data), data=data))]

    def _take_reasoning(self, item_key: ItemKey, item: Mapping[str, Any]) -> list[Event]:
        """Return the thinking that no delta had, and its proof.

        If an upstream shows the thoughts themselves, the summary adds nothing.
        """
        events: list[Event] = []
        thoughts, summaries = item.get("content"), item.get("summary")
        for content, part in enumerate(thoughts if isinstance(thoughts, list) else ()):
            if isinstance(part, dict):
                events += self._take_thought(item_key, content, part)
        if item_key not in self._thoughts:
            for index, summary in enumerate(summaries if isinstance(summaries, list) else ()):
                text = summary.get("text") if isinstance(summary, dict) else None
                if isinstance(text, str) and text:
                    events += self.think(item_key, index, text)
        proof = item.get("encrypted_content")
        if isinstance(proof, str) and proof:
            self._whole.add(item_key)
            thought = proven("", proof)
            if thought.signature or thought.redacted:
                events.append(
                    ThinkingDelta(
                        signature=thought.signature,
                        redacted=thought.redacted,
                        signer=thought.signer,
                    )
                )
        return events


def _emit_arguments(call: _Call) -> list[Event]:
    """Emit the kept arguments, unless they may still turn out to mean none."""
    arguments = call.waiting.take() if call.has_begun else None
    if arguments is None:
        return []
    call.has_arguments = True
    return [CallDelta(call.index, arguments)]


class StreamDecoder:
    """Decodes one stream. Made for one attempt, used from one task.

    An `error` event is kept until the response is reported as failed, or until the upstream ends
    the stream: the rest of the failure, such as its usage, is sent in between.
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

    def take(self, read: UpstreamEvent | None) -> list[Event]:
        """Return the canonical events of one decoded event; often none. Never raises."""
        return [] if read is None or self._ended else self._take(read)

    def end(self) -> list[Event]:
        """Note the end of the connection, and emit a kept failure."""
        failed = None if self._ended else self._failed
        self._ended = True
        return [] if failed is None else [failed]

    def _take(self, read: UpstreamEvent) -> list[Event]:
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

    def _take_delta(self, read: UpstreamEvent, delta: str) -> list[Event]:
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

    def _begin(self, read: UpstreamEvent) -> list[Event]:
        if self._began:
            return []
        self._began = True
        response = read_response(read.response) or Response()
        self._stated.take(response)
        self._items.seed = response.id or ""
        return [Began(response.id or None, response.model or None)]

    def _end(self, read: UpstreamEvent) -> list[Event]:
        """End with the whole response, which repeats all items, including images.

        They are decoded only if none was emitted.
        """
        return self.take_whole(read.type, read_response(read.response) or Response())

    def take_whole(self, kind: str, response: Response) -> list[Event]:
        """Return the events of the response that ends a stream; `kind` is one of `ENDS`."""
        self._ended = True
        events: list[Event] = []
        if not self._items.has_emitted:
            output = read_json(bytes(response.output))
            for index, item in enumerate(output if isinstance(output, list) else ()):
                if isinstance(item, dict):
                    events += self._items.take_item(index, item)
        self._stated.take(response, tools_in(response.output))
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


def _item_key(read: UpstreamEvent) -> ItemKey:
    """Return the key of an item: its index, or else its id."""
    if read.output_index is not None:
        return read.output_index
    stated = read.item_id or object_of(read.item).get("id")
    return stated if isinstance(stated, str) else None


def _failure(read: UpstreamEvent) -> StreamFailed:
    """Return the failure of an `error` event, whose members are in it or in its `error`."""
    inner = failure_in(read_json(bytes(read.error)))
    return inner or StreamFailed(read.code, message_in(read.message) or UNNAMED.message)


def decode_response(body: bytes) -> model.Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no output, or an error.

    It is decoded as the last event of a stream, which has the same response.
    """
    stated = read_response(body)
    if stated is None or not bytes(stated.output).lstrip().startswith(b"["):
        raise UpstreamMalformed("a response without output")
    kind = f"response.{stated.status or 'completed'}"
    decoder = StreamDecoder()
    events = decoder.take_whole(kind if kind in ENDS else "response.completed", stated)
    failed = next((event for event in events if isinstance(event, StreamFailed)), None)
    if failed is not None:
        raise UpstreamMalformed("an error where an answer was promised", failed.code)
    response = folded([Began(stated.id or None, stated.model or None), *events])
    assert response is not None, "it has begun"
    return response
