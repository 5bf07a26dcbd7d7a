"""A responses client's response, of canonical events: as a stream, or whole.

Both have the same items; the last event of a stream repeats them. The protocol always states
usage, so `include_usage` has no effect.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.responses import items
from channels.dialects.responses.client_tools import BY_CALL
from channels.dialects.responses.response_object import ending_of, response_object
from channels.dialects.responses.signatures import proof_member
from channels.dialects.responses.tool_calls import call_item, custom_input
from channels.dialects.responses.tool_names import CUSTOM, named_call
from channels.dialects.responses.usage import write_usage
from channels.dialects.usage_details import tier_member
from channels.json.lenient import dumps
from channels.translation import events
from channels.translation.call_arguments import Arguments, call_arguments
from channels.translation.error_names import failure_named
from channels.translation.event_encoder import EventEncoder
from channels.translation.media import markdown
from channels.translation.model import Media


@dataclass(slots=True, eq=False)
class _OpenItem:
    """An open item: `head` is the prefix of its events.

    A message or a thought has the `kind` of its open part, the `pieces` of that part's text, where
    that starts in all of the text, its sources, and the `parts` done.
    """

    index: int
    item: dict[str, Any]
    head: bytes = b""
    kind: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    start: int = 0
    annotations: list[dict[str, Any]] = field(default_factory=list)


class ResponsesResponseEncoder(EventEncoder):
    """Makes items of the events. Made for one attempt, used from one task.

    The items are kept to the end, where the response has them all.
    """

    __slots__ = (
        "_begun_calls",
        "_characters",
        "_created",
        "_id",
        "_model",
        "_open",
        "_output",
        "_text_parts",
        "_text_starts",
        "_uncited",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._id = id
        self._created = created
        self._model = model
        self._output: list[dict[str, Any]] = []  # items, open ones as they were added
        self._open: _OpenItem | None = None  # the open message or thought
        self._begun_calls: set[int] = set()
        self._characters = 0  # of all text so far
        self._uncited: list[events.Citation] = []  # sources that came before their text
        # The parts of text that are done, and where each starts in all of the text.
        self._text_parts: list[dict[str, Any]] = []
        self._text_starts: list[int] = []

    @abstractmethod
    def _item_added(self, one: _OpenItem) -> bytes: ...

    @abstractmethod
    def _item_done(self, one: _OpenItem) -> bytes: ...

    @abstractmethod
    def _part_added(self, one: _OpenItem) -> bytes: ...

    @abstractmethod
    def _part_delta(self, one: _OpenItem, text: str) -> bytes: ...

    @abstractmethod
    def _part_done(self, one: _OpenItem, text: str, part: dict[str, Any]) -> bytes: ...

    @abstractmethod
    def _part_cited(self, one: _OpenItem) -> bytes: ...

    @abstractmethod
    def _open_call(self, event: events.CallBegan) -> bytes:
        """Begin a call."""

    @abstractmethod
    def _close_all(self) -> bytes:
        """Finish every item."""

    @abstractmethod
    def _response(self, **members: Any) -> bytes:
        """Return the response, or the event with it."""

    def _whole(self, output: list[Any], **members: Any) -> bytes:
        return dumps(response_object(self._id, self._created, self._model, output, **members))

    def _before_item(self) -> bytes:
        """End what a new item ends."""
        return self._close()

    def _add(self, kind: str, **members: Any) -> tuple[_OpenItem, bytes]:
        """Add an item. It ends the open message or thought, and complete calls."""
        before = self._before_item()
        one, added = self._append(kind, **members)
        return one, before + added

    def _append(self, kind: str, **members: Any) -> tuple[_OpenItem, bytes]:
        """Add an item while only calls are open."""
        index = len(self._output)
        one = _OpenItem(index, items.new_item(self._id, index, kind, **members))
        self._output.append(one.item)
        return one, self._item_added(one)

    def _finish(self, one: _OpenItem, **members: Any) -> bytes:
        """Give an item its final form."""
        one.item.update(members)
        return self._item_done(one)

    def _text(self, text: str) -> bytes:
        written = self._words(items.TEXT, text)
        self._characters += len(text)
        if self._uncited and text:
            waiting, self._uncited = self._uncited, []
            written += b"".join([self._citation(one) for one in waiting])
        return written

    def _citation(self, citation: events.Citation) -> bytes:
        one = self._open
        is_open = one is not None and one.kind == items.TEXT
        start = citation.start
        if not is_open and (start is None or start >= self._characters):
            self._uncited.append(citation)
            return b""
        if one is None or not is_open or (start is not None and start < one.start):
            self._cite_done(citation)
            return b""
        end = self._characters if citation.end is None else citation.end
        one.annotations.append(_annotation(citation, one.start, end))
        return self._part_cited(one)

    def _cite_done(self, citation: events.Citation) -> None:
        """Add a source to a part that is done, which the response at the end states once more."""
        if not self._text_parts:
            return
        found = len(self._text_parts) - 1
        if citation.start is not None:
            found = max(0, bisect_right(self._text_starts, citation.start) - 1)
        part, start = self._text_parts[found], self._text_starts[found]
        last = start + len(part["text"])
        end = last if citation.end is None else min(citation.end, last)
        part["annotations"].append(_annotation(citation, start, end))

    def _refusal(self, text: str) -> bytes:
        return self._words(items.REFUSAL, text)

    def _words(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        one, written = self._open, b""
        if one is None or one.kind != kind:
            one, written = self._begin_part(kind)
        one.pieces.append(text)
        delta = self._part_delta(one, text)
        return written + delta if written else delta

    def _begin_part(self, kind: str) -> tuple[_OpenItem, bytes]:
        """Begin a part, in the open message or in a new item."""
        one = self._open
        if kind == items.SUMMARY:
            one, written = self._add("reasoning", summary=[])
        elif one is not None and one.kind != items.SUMMARY:
            written = self._close_part(one)
        else:
            one, written = self._add("message", status="in_progress", role="assistant", content=[])
        self._open = one
        one.kind = kind
        one.start = self._characters
        return one, written + self._part_added(one)

    def _close_part(self, one: _OpenItem) -> bytes:
        text = "".join(one.pieces)
        one.pieces.clear()
        part = items.text_part(one.kind, text)
        if one.kind == items.TEXT:
            part["annotations"], one.annotations = one.annotations, []
            self._text_parts.append(part)
            self._text_starts.append(one.start)
        written = self._part_done(one, text, part)
        one.parts.append(part)
        return written

    def _close(self, proof: dict[str, Any] | None = None) -> bytes:
        """Finish the open message or thought; `proof` is a thought's."""
        one, self._open = self._open, None
        if one is None:
            return b""
        written = self._close_part(one)
        if one.kind == items.SUMMARY:
            proof = proof or proof_member(None, None, None)
            return written + self._finish(one, summary=one.parts, **proof)
        return written + self._finish(one, status="completed", content=one.parts)

    def _thinking(self, event: events.ThinkingDelta) -> bytes:
        written = b""
        if event.text and not event.redacted:
            written = self._words(items.SUMMARY, event.text)
        if not (event.signature or event.redacted):
            return written
        proof = proof_member(event.signature, event.redacted, event.signer)
        if event.redacted or self._open is None or self._open.kind != items.SUMMARY:
            one, added = self._add("reasoning", summary=[])
            return written + added + self._finish(one, **proof)
        return written + self._close(proof)

    def _media(self, media: Media) -> bytes:
        image = items.image_members(media)
        if image is None:
            return self._text(markdown(media))
        one, written = self._add("image_generation_call", status="in_progress", result=None)
        return written + self._finish(one, **image)

    def _call_began(self, event: events.CallBegan) -> bytes:
        if event.index in self._begun_calls:
            return b""
        self._begun_calls.add(event.index)
        written = self._before_item()
        if event.signature:
            # A call has no member for a proof: it is that of a thought before it.
            thought, added = self._append("reasoning", summary=[])
            proof = proof_member(event.signature, None, event.signer)
            written += added + self._finish(thought, **proof)
        return written + self._open_call(event)

    def _end(self) -> bytes:
        finished = self._finished or events.Finished("stop")
        written = b""
        if finished.reason == "refusal" and finished.explanation and not self._has_refusal:
            written = self._refusal(finished.explanation)
        written += self._close_all()
        for citation in self._uncited:
            self._cite_done(citation)
        usage, tier = write_usage(self._usage), tier_member(self._usage)
        return written + self._response(**ending_of(finished.reason), usage=usage, **tier)


def _annotation(citation: events.Citation, start: int, end: int) -> dict[str, Any]:
    """Return the annotation of a part that starts there in all of the text."""
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title,
        "start_index": max(0, (citation.start or 0) - start),
        "end_index": max(0, end - start),
    }


class ResponsesBodyEncoder(ResponsesResponseEncoder):
    """Encodes one whole response, at its end; its items have no events."""

    __slots__ = ("_calls",)

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(id=id, created=created, model=model, include_usage=include_usage)
        # By their index: the item's index, and the pieces of the arguments.
        self._calls: dict[int, tuple[int, events.CallBegan, list[str]]] = {}

    def _item_added(self, one: _OpenItem) -> bytes:
        return b""

    def _item_done(self, one: _OpenItem) -> bytes:
        return b""

    def _part_added(self, one: _OpenItem) -> bytes:
        return b""

    def _part_delta(self, one: _OpenItem, text: str) -> bytes:
        return b""

    def _part_done(self, one: _OpenItem, text: str, part: dict[str, Any]) -> bytes:
        return b""

    def _part_cited(self, one: _OpenItem) -> bytes:
        return b""

    def _open_call(self, event: events.CallBegan) -> bytes:
        self._calls[event.index] = (len(self._output), event, [])
        self._output.append({})
        return b""

    def _call_delta(self, event: events.CallDelta) -> bytes:
        if event.index in self._calls:
            self._calls[event.index][2].append(event.arguments)
        return b""

    def _close_all(self) -> bytes:
        self._close()
        for index, began, pieces in self._calls.values():
            kind, members = call_item(began.name, began.id, call_arguments("".join(pieces)))
            item = items.new_item(self._id, index, kind, status="completed", **members)
            self._output[index] = item
        return b""

    def _response(self, **members: Any) -> bytes:
        return self._whole(self._output, **members)


# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True)
class _PartEvents:
    """The names of a part's events, and the members with its index, its text and the rest."""

    added: bytes
    delta: bytes
    done: bytes
    part_done: bytes
    index: bytes
    text: bytes
    rest: bytes = b""


def _content(text: str, member: bytes, rest: bytes = b"") -> _PartEvents:
    return _PartEvents(
        added=b"response.content_part.added",
        delta=b"response.%b.delta" % text.encode(),
        done=b"response.%b.done" % text.encode(),
        part_done=b"response.content_part.done",
        index=b',"content_index":%d',
        text=member,
        rest=rest,
    )


_PARTS = {
    items.TEXT: _content(items.TEXT, b',"text":', b',"logprobs":[]'),
    items.REFUSAL: _content(items.REFUSAL, b',"refusal":'),
    items.SUMMARY: _PartEvents(
        added=b"response.reasoning_summary_part.added",
        delta=b"response.reasoning_summary_text.delta",
        done=b"response.reasoning_summary_text.done",
        part_done=b"response.reasoning_summary_part.done",
        index=b',"summary_index":%d',
        text=b',"text":',
    ),
}


@dataclass(slots=True, eq=False)
class _OpenCall:
    """An open call; without an item if that is only added when the call is complete."""

    open: _OpenItem | None
    began: events.CallBegan
    is_custom: bool
    arguments: Arguments = field(default_factory=Arguments)


class ResponsesStreamEncoder(ResponsesResponseEncoder):
    """Encodes one response's stream.

    response.created and response.in_progress, then each item from output_item.added to
    output_item.done, at the end response.completed or response.incomplete. The beginning is kept
    until there is content, so that another channel may still be tried, the end until the upstream
    has ended: a cut stream has no last event (reference 2.6).
    """

    __slots__ = ("_calls", "_sequence")

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(id=id, created=created, model=model, include_usage=include_usage)
        # Open calls, taken from the front, where a plain dict would skip removed entries.
        self._calls: OrderedDict[int, _OpenCall] = OrderedDict()
        self._sequence = 0

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

    def _start(self) -> bytes:
        """Return the events before any item, once."""
        if self._sequence:
            return b""
        whole = b'"response":' + self._whole([])
        created = self._event(b"response.created", whole)
        return created + self._event(b"response.in_progress", whole)

    def _before_item(self) -> bytes:
        return self._start() + self._close() + self._close_calls(only_whole=True)

    def _item_added(self, one: _OpenItem) -> bytes:
        one.head = b'"item_id":' + dumps(one.item["id"]) + b',"output_index":%d' % one.index
        return self._item_event(b"response.output_item.added", one)

    def _item_done(self, one: _OpenItem) -> bytes:
        return self._item_event(b"response.output_item.done", one)

    def _item_event(self, kind: bytes, one: _OpenItem) -> bytes:
        return self._event(kind, b'"output_index":%d,"item":' % one.index + dumps(one.item))

    def _part_added(self, one: _OpenItem) -> bytes:
        return self._part_event(_PARTS[one.kind].added, one, items.text_part(one.kind, ""))

    def _part_delta(self, one: _OpenItem, text: str) -> bytes:
        of = _PARTS[one.kind]
        index = of.index % len(one.parts)
        return self._event(of.delta, one.head + index + b',"delta":' + dumps(text) + of.rest)

    def _part_done(self, one: _OpenItem, text: str, part: dict[str, Any]) -> bytes:
        of = _PARTS[one.kind]
        index = of.index % len(one.parts)
        done = self._event(of.done, one.head + index + of.text + dumps(text) + of.rest)
        return done + self._part_event(of.part_done, one, part)

    def _part_cited(self, one: _OpenItem) -> bytes:
        index = _PARTS[one.kind].index % len(one.parts)
        place = b',"annotation_index":%d,"annotation":' % (len(one.annotations) - 1)
        return self._event(
            b"response.output_text.annotation.added",
            one.head + index + place + dumps(one.annotations[-1]),
        )

    def _part_event(self, kind: bytes, one: _OpenItem, part: Mapping[str, Any]) -> bytes:
        index = _PARTS[one.kind].index % len(one.parts)
        return self._event(kind, one.head + index + b',"part":' + dumps(part))

    def _open_call(self, event: events.CallBegan) -> bytes:
        kind, members = call_item(event.name, event.id, None)
        one, added = None, b""
        if kind not in BY_CALL:  # of those, clients read the command when the item begins
            one, added = self._append(kind, status="in_progress", **members)
        self._calls[event.index] = _OpenCall(one, event, named_call(event.name)[0] == CUSTOM)
        return added

    def _call_delta(self, event: events.CallDelta) -> bytes:
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
        written, head = b"", one.head + b","
        if call.is_custom:
            text = custom_input(arguments)
            delta = head + b'"delta":' + dumps(text)
            written += self._event(b"response.custom_tool_call_input.delta", delta)
            done = head + b'"input":' + dumps(text)
            written += self._event(b"response.custom_tool_call_input.done", done)
            return written + self._finish(one, status="completed", input=text)
        if not stated.strip():  # arguments are an object, even if empty
            written += self._arguments_delta(one, arguments)
        done = head + b'"name":' + dumps(one.item["name"]) + b',"arguments":' + dumps(arguments)
        written += self._event(b"response.function_call_arguments.done", done)
        return written + self._finish(one, status="completed", arguments=arguments)

    def _close_all(self) -> bytes:
        return self._start() + self._close() + self._close_calls(only_whole=False)

    def _response(self, **members: Any) -> bytes:
        kind = b"response." + members["status"].encode()
        return self._event(kind, b'"response":' + self._whole(self._output, **members))

    def _failed(self, event: events.StreamFailed) -> bytes:
        """Encode the error as an event, and the failed response; open items stay unfinished.

        The event has its documented members besides an `error`, which libraries raise.
        """
        named = failure_named(event.code)
        error = {"code": named.chat_code, "message": event.message}
        inner = {"type": named.chat_type, **error, "param": None}
        members = dumps({**error, "param": None, "error": inner})[1:-1]
        written = self._start() + self._event(b"error", members)
        return written + self._response(status="failed", error=error)
