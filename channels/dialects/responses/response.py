"""Encode responses of the responses protocol: whole ones, and streams of events.

The content of an item is repeated in a stream: in its deltas, when its part is done, when it is
done itself, and in the whole response of the last event. The items of a response are therefore kept
until its end.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from channels.dialects.meter import Usage, add_parts, tier_member, tools_member
from channels.dialects.responses.decode import redacted_proof
from channels.dialects.responses.tools import (
    BY_CALL,
    CLIENT_TOOLS,
    CUSTOM,
    call_item,
    custom_input,
    named_call,
)
from channels.families import RESPONSES
from channels.json.lenient import dumps
from channels.translation.call_arguments import call_arguments
from channels.translation.codec import EventEncoder
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Finished,
    FinishReason,
    Media,
    Part,
    Protocol,
    Refusal,
    Response,
    StreamFailed,
    Text,
    Thinking,
    ThinkingDelta,
    ToolCall,
    markdown,
)
from channels.translation.signatures import UNSIGNED, sealed
from channels.translation.tool_calls import Arguments, failure_named

# Items of a response, as in whole responses and in events.
#
# Item ids are derived from the response's id and the item's index: they are the same in both forms,
# and differ in every response, because clients identify items by them.

_ID_CHARACTERS = 32
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "image_generation_call": "ig",
    **{tool.item: tool.prefix for tool in CLIENT_TOOLS.values()},
}
_TEXT = "output_text"
_REFUSAL = "refusal"


def _item(response_id: str, index: int, kind: str, **members: Any) -> dict[str, Any]:
    name = f"{response_id}\0{index}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(name).hexdigest()[:_ID_CHARACTERS]
    return {"id": f"{_PREFIXES[kind]}_{digest}", "type": kind, **members}


def _content(kind: str, text: str) -> dict[str, Any]:
    """Return a part of a message."""
    if kind == _REFUSAL:
        return {"type": kind, "refusal": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def _proof(signature: str | None, redacted: str | None, signer: Protocol | None) -> dict[str, Any]:
    """Return the member that proves a thought to its signer.

    A client returns it unchanged (`channels/translation/signatures.py`).
    """
    proof = redacted_proof(redacted) if redacted else signature
    if not proof:
        return {"encrypted_content": UNSIGNED}
    return {"encrypted_content": sealed(proof, signer, own=RESPONSES.protocol)}


def _image(media: Media) -> dict[str, Any] | None:
    """Return the members of an item with the model's image; None for any other medium."""
    if media.kind != "image" or media.data is None:
        return None
    form = (media.mime_type or "image/png").removeprefix("image/")
    return {"status": "completed", "result": media.data, "output_format": form}


# How a response ended, and the object around its items.

_INCOMPLETE: Mapping[FinishReason | None, str] = {
    "length": "max_output_tokens",
    "pause": "max_output_tokens",  # it is incomplete
    "refusal": "content_filter",
}


def _ending(reason: FinishReason | None) -> dict[str, Any]:
    cause = _INCOMPLETE.get(reason)
    if cause is None:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": cause}}


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """Return the `usage` member; None if it is unknown."""
    if usage is None:
        return None
    details: dict[str, Any] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    written: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": details,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.parts is not None:
        add_parts(usage, written["input_tokens_details"], written["output_tokens_details"])
        written.update(tools_member(usage.parts))
    return written


def _whole(id: str, created: int, model: str, output: list[Any], **members: Any) -> dict[str, Any]:
    """Return a response. The request's settings are not repeated: they have default values."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        **members,
    }


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id, at this Unix second."""
    output = _Output(id)
    parts = response.parts
    has_refusal = any(isinstance(part, Refusal) for part in parts)
    if response.finish == "refusal" and response.explanation and not has_refusal:
        parts = (*parts, Refusal(response.explanation))
    for kind, run in groupby(parts, _kind_of_words):
        if kind:
            words = (part.text for part in run if isinstance(part, Text | Refusal))
            output.add_words(kind, "".join(words))
        else:
            for part in run:
                output.add(part)
    ending, usage = _ending(response.finish), write_usage(response.usage)
    tier = tier_member(response.usage)
    return dumps(_whole(id, created, model, output.items, **ending, usage=usage, **tier))


def _kind_of_words(part: Part) -> str:
    """Return the kind of message part that a part becomes; empty for other items."""
    return _TEXT if isinstance(part, Text) else _REFUSAL if isinstance(part, Refusal) else ""


class _Output:
    """The items of a whole response; adjacent texts are one message, as in a stream."""

    __slots__ = ("_id", "items")

    def __init__(self, response_id: str) -> None:
        self._id = response_id
        self.items: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"<_Output {len(self.items)} items>"

    def add(self, part: Part) -> None:
        """Add the next part that is neither text nor refusal."""
        if isinstance(part, Thinking):
            self._add_thought(part)
        elif isinstance(part, ToolCall):
            if part.signature:
                self._add_thought(Thinking("", part.signature, part.signer))
            kind, members = call_item(part.name, part.id, call_arguments(part.arguments))
            self._add(kind, status="completed", **members)
        elif isinstance(part, Media):
            image = _image(part)
            if image is None:
                self.add_words(_TEXT, markdown(part))
            else:
                self._add("image_generation_call", **image)

    def _add(self, kind: str, **members: Any) -> None:
        self.items.append(_item(self._id, len(self.items), kind, **members))

    def add_words(self, kind: str, text: str) -> None:
        """Add a part of a message."""
        if not text:
            return
        if not self.items or self.items[-1]["type"] != "message":
            self._add("message", status="completed", role="assistant", content=[])
        self.items[-1]["content"].append(_content(kind, text))

    def _add_thought(self, part: Thinking) -> None:
        if part.text or part.signature or part.redacted:
            proof = _proof(part.signature, part.redacted, part.signer)
            self._add("reasoning", summary=[_summary(part.text)] if part.text else [], **proof)


# Encodes canonical events as a responses stream.
#
# response.created and response.in_progress, then each item from output_item.added to
# output_item.done, at the end response.completed or response.incomplete. The beginning is kept
# until there is content, so that another channel may still be tried, the end until the upstream has
# ended: a cut stream has no last event (spec: Stream failure behaviour).

# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(slots=True, eq=False)
class _Open:
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

    open: _Open | None
    began: CallBegan
    is_custom: bool
    arguments: Arguments = field(default_factory=Arguments)


class StreamEncoder(EventEncoder):
    """Encodes one response's stream. Made for one attempt, used from one task.

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
        self._open: _Open | None = None  # the open message or thought
        # Open calls, taken from the front, where a plain dict would skip removed entries.
        self._calls: OrderedDict[int, _OpenCall] = OrderedDict()
        self._begun_calls: set[int] = set()

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._sequence else "new"
        return f"<responses.StreamEncoder {state}, {len(self._output)} items>"

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
        whole = _whole(self._id, self._created, self._model, output, **members)
        return self._event(kind, b'"response":' + dumps(whole))

    def _start(self) -> bytes:
        """Return the events before any item, once."""
        if self._sequence:
            return b""
        created = self._response_event(b"response.created")
        return created + self._response_event(b"response.in_progress")

    def _item_event(self, kind: bytes, index: int, item: Mapping[str, Any]) -> bytes:
        return self._event(kind, b'"output_index":%d,"item":' % index + dumps(item))

    def _add(self, kind: str, **members: Any) -> tuple[_Open, bytes]:
        """Add an item. It ends the open message or thought, and complete calls."""
        before = self._start() + self._close() + self._close_calls(only_whole=True)
        one, added = self._append(kind, **members)
        return one, before + added

    def _append(self, kind: str, **members: Any) -> tuple[_Open, bytes]:
        """Add an item while only calls are open."""
        index = len(self._output)
        item = _item(self._id, index, kind, **members)
        self._output.append(item)
        head = b'"item_id":' + dumps(item["id"]) + b',"output_index":%d' % index
        return _Open(index, item, head), self._item_event(
            b"response.output_item.added", index, item
        )

    def _finish(self, one: _Open, **members: Any) -> bytes:
        """Write the final form of an item."""
        item = self._output[one.index] = {**one.item, **members}
        return self._item_event(b"response.output_item.done", one.index, item)

    # --- Messages ---

    def _text(self, text: str) -> bytes:
        return self._words(_TEXT, text)

    def _refusal(self, text: str) -> bytes:
        return self._words(_REFUSAL, text)

    def _words(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        written = b""
        message = self._open
        if message is None or message.kind != kind:
            message, written = self._begin_words(kind)
        message.pieces.append(text)
        head = message.head + b',"content_index":%d,"delta":' % len(message.content)
        if kind == _REFUSAL:
            return written + self._event(b"response.refusal.delta", head + dumps(text))
        delta = self._event(b"response.output_text.delta", head + dumps(text) + b',"logprobs":[]')
        return written + delta if written else delta

    def _begin_words(self, kind: str) -> tuple[_Open, bytes]:
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
        added = self._part_event(b"response.content_part.added", message, _content(kind, ""))
        return message, written + added

    def _part_event(self, kind: bytes, message: _Open, part: Mapping[str, Any]) -> bytes:
        head = message.head + b',"content_index":%d,"part":' % len(message.content)
        return self._event(kind, head + dumps(part))

    def _close_part(self, message: _Open) -> bytes:
        text = "".join(message.pieces)
        message.pieces.clear()
        head = message.head + b',"content_index":%d,' % len(message.content)
        if message.kind == _REFUSAL:
            done = self._event(b"response.refusal.done", head + b'"refusal":' + dumps(text))
        else:
            members = head + b'"text":' + dumps(text) + b',"logprobs":[]'
            done = self._event(b"response.output_text.done", members)
        part = _content(message.kind, text)
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
            members = head + b'"part":' + dumps(_summary(text))
            written += self._event(b"response.reasoning_summary_part.done", members)
        proof = proof or _proof(None, None, None)
        return written + self._finish(one, summary=[_summary(text)] if text else [], **proof)

    # --- Thoughts and media ---

    def _thinking(self, event: ThinkingDelta) -> bytes:
        written = b""
        if event.text and not event.redacted:
            written = self._think(event.text)
        if not (event.signature or event.redacted):
            return written
        proof = _proof(event.signature, event.redacted, event.signer)
        if event.redacted or self._open is None or self._open.kind:
            self._open, added = self._add_thought(written)
            written = added
        return written + self._close(**proof)

    def _add_thought(self, written: bytes) -> tuple[_Open, bytes]:
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
            members = head + b'"part":' + dumps(_summary(""))
            written += self._event(b"response.reasoning_summary_part.added", members)
        thought.pieces.append(text)
        members = head + b'"delta":' + dumps(text)
        return written + self._event(b"response.reasoning_summary_text.delta", members)

    def _media(self, media: Media) -> bytes:
        image = _image(media)
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
            written += self._finish(thought, **_proof(event.signature, None, event.signer))
        kind, members = call_item(event.name, event.id, None)
        one: _Open | None = None
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

    def _arguments_delta(self, one: _Open, arguments: str) -> bytes:
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
        ending = _ending(finished.reason)
        kind = b"response." + ending["status"].encode()
        usage, tier = write_usage(self._usage), tier_member(self._usage)
        return written + self._response_event(kind, **ending, usage=usage, **tier)
