"""The items of a response, both ways: as canonical events, each content once, and back.

A message has parts with text, refusals and citations; function calls are numbered; an image made
by the provider is sent whole. Web searches and other calls that the provider runs are ignored:
they matter to the client only by the model's text.

Ids of written items are derived from the response's id and the item's index: they are the same in
whole responses and in events, and differ in every response, because clients identify items by
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.dialects.responses.client_tools import CLIENT_TOOLS
from channels.dialects.responses.signatures import proven
from channels.translation.call_arguments import WaitingArguments
from channels.translation.events import (
    CallBegan,
    CallDelta,
    Citation,
    Event,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
)
from channels.translation.identifiers import made_id
from channels.translation.media import stated_type
from channels.translation.model import Media

_ID_CHARACTERS = 32
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "image_generation_call": "ig",
    **{tool.item: tool.prefix for tool in CLIENT_TOOLS.values()},
}
TEXT = "output_text"
REFUSAL = "refusal"
SUMMARY = "summary_text"


def new_item(response_id: str, index: int, kind: str, **members: object) -> dict[str, object]:
    name = f"{response_id}\0{index}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(name).hexdigest()[:_ID_CHARACTERS]
    return {"id": f"{_PREFIXES[kind]}_{digest}", "type": kind, **members}


def text_part(kind: str, text: str) -> dict[str, object]:
    """Return a part of a message or of a thought."""
    if kind == TEXT:
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "refusal" if kind == REFUSAL else "text": text}


def image_members(media: Media) -> dict[str, object] | None:
    """Return the members of an item with the model's image; None for any other medium."""
    if media.kind != "image" or media.data is None:
        return None
    form = (media.mime_type or "image/png").removeprefix("image/")
    return {"status": "completed", "result": media.data, "output_format": form}


# An index in the output, or an id if an upstream sends no index.
ItemKey = int | str | None
# A paragraph of an item's thinking: whether it is in its summary, and its index.
_Step = tuple[bool, int | None]

# Parts of a reasoning item, which are never visible text.
_THOUGHTS = ("reasoning_text", "summary_text")
_FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "webp": "image/webp"}


@dataclass(slots=True)
class _OpenPart:
    """A part of a message: the offset of its text in the response, and what was emitted."""

    start: int
    is_emitted: bool = False
    citations: int = 0


@dataclass(slots=True)
class _FunctionCall:
    """A function call.

    `index` is the canonical one, once the call has begun. `waiting` are arguments kept before its
    name, or because they may mean no arguments.
    """

    index: int = -1
    has_arguments: bool = False
    waiting: WaitingArguments = field(default_factory=WaitingArguments)

    @property
    def has_begun(self) -> bool:
        """Whether its CallBegan was emitted."""
        return self.index >= 0


class ItemReader:
    """Decodes the items of one response. `seed` derives missing ids."""

    __slots__ = ("_calls", "_characters", "_parts", "_thoughts", "_whole", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0  # calls that have begun
        self._characters = 0
        self._parts: dict[tuple[ItemKey, int], _OpenPart] = {}
        self._calls: dict[ItemKey, _FunctionCall] = {}
        self._thoughts: dict[ItemKey, _Step] = {}  # the last one emitted
        self._whole: set[ItemKey] = set()  # items emitted whole

    @property
    def has_emitted(self) -> bool:
        """Whether any item had content."""
        return bool(self._parts or self.count or self._thoughts or self._whole)

    def note_emitted(self, item_key: ItemKey, content: int, characters: int) -> None:
        """Note that text, or a refusal, of a part was emitted."""
        self._part(item_key, content).is_emitted = True
        self._characters += characters

    def cite(
        self, item_key: ItemKey, content: int, annotation: Mapping[str, object]
    ) -> list[Event]:
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

    def take_part(self, item_key: ItemKey, content: int, part: Mapping[str, object]) -> list[Event]:
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

    def begin_item(self, item_key: ItemKey, item: Mapping[str, object]) -> list[Event]:
        """Begin an item: only the name of a function call matters."""
        return self._begin_call(item_key, item) if item.get("type") == "function_call" else []

    def take_item(self, item_key: ItemKey, item: Mapping[str, object]) -> list[Event]:
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
        self, item_key: ItemKey, content: int, part: Mapping[str, object]
    ) -> list[Event]:
        """Return a part of a thought that is done.

        A thought whose summary was emitted is not emitted again.
        """
        text, last_step = part.get("text"), self._thoughts.get(item_key)
        if self._part(item_key, content).is_emitted or (last_step is not None and last_step[0]):
            return []
        return self.think_aloud(item_key, content, text) if isinstance(text, str) and text else []

    def _part(self, item_key: ItemKey, content: int) -> _OpenPart:
        key = (item_key, content)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _OpenPart(self._characters)
        return part

    def _call(self, item_key: ItemKey) -> _FunctionCall:
        call = self._calls.get(item_key)
        if call is None:
            call = self._calls[item_key] = _FunctionCall()
        return call

    def _begin_call(self, item_key: ItemKey, item: Mapping[str, object]) -> list[Event]:
        call = self._call(item_key)
        if call.has_begun:
            return []
        call.index = self.count
        self.count += 1
        call_id, name = item.get("call_id") or item.get("id"), item.get("name")
        return [
            CallBegan(
                call.index,
                call_id if isinstance(call_id, str) else made_id(self.seed, str(call.index)),
                name if isinstance(name, str) else "",
            ),
            *_emit_arguments(call),
        ]

    def _take_image(self, item_key: ItemKey, item: Mapping[str, object]) -> list[Event]:
        data = item.get("result")
        if not isinstance(data, str) or not data:
            return []  # it was not to be made; the model gives the reason
        self._whole.add(item_key)
        stated = _FORMATS.get(str(item.get("output_format")), "image/png")
        return [MediaDelta(Media("image", stated_type(stated, data), data=data))]

    def _take_reasoning(self, item_key: ItemKey, item: Mapping[str, object]) -> list[Event]:
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


def _emit_arguments(call: _FunctionCall) -> list[Event]:
    """Emit the kept arguments, unless they may still turn out to mean none."""
    arguments = call.waiting.take() if call.has_begun else None
    if arguments is None:
        return []
    call.has_arguments = True
    return [CallDelta(call.index, arguments)]
