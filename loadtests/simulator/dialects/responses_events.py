"""The events that stream the items of a responses answer: numbered, in order, each item in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from loadtests.simulator.dialects.base import argument_pieces, named
from loadtests.simulator.dialects.responses_items import Item
from loadtests.simulator.media.picture import png_base64


class EventWriter:
    """Frames with rising numbers.

    `text_end` is the index after the last text delta; without any, where the message would begin.
    `partial_images` is how many drafts of a picture are shown before it.
    """

    def __init__(self, deltas: Sequence[str], *, partial_images: int) -> None:
        self.frames: list[bytes] = []
        self.text_end = 0
        self.message_place: dict[str, Any] = {}
        self._deltas = deltas
        self._partial_images = partial_images

    def put(self, event: str, data: dict[str, Any]) -> None:
        """One event under its number."""
        self.frames.append(named(event, {"sequence_number": len(self.frames), **data}))

    def items(self, items: Sequence[Item]) -> None:
        """The events of all items."""
        self.text_end = len(self.frames)
        self.message_place = {"item_id": "msg_none", "output_index": 0, "content_index": 0}
        for output, item in enumerate(items):
            place = {"item_id": item["id"], "output_index": output}
            self._WRITERS[item["type"]](self, item, place)

    def _begin(self, item: Item, place: dict[str, Any], **empty: Any) -> None:
        begun = {**item, **({"status": "in_progress"} if "status" in item else {}), **empty}
        opening = {"output_index": place["output_index"], "item": begun}
        self.put("response.output_item.added", opening)

    def _end(self, item: Item, place: dict[str, Any]) -> None:
        self.put("response.output_item.done", {"output_index": place["output_index"], "item": item})

    def _message(self, item: Item, place: dict[str, Any]) -> None:
        place = self.message_place = {**place, "content_index": 0}
        (part,) = item["content"]
        is_text = part["type"] == "output_text"
        kind, member = ("output_text", "text") if is_text else ("refusal", "refusal")
        more: dict[str, Any] = {"logprobs": []} if is_text else {}
        sources = part.get("annotations", ())
        empty = {**part, member: "", **({"annotations": []} if is_text else {})}
        self._begin(item, place, content=[])
        self.put("response.content_part.added", {**place, "part": empty})
        for piece in self._deltas:
            self.put(f"response.{kind}.delta", {**place, "delta": piece, **more})
        self.text_end = len(self.frames)
        for index, source in enumerate(sources):
            cited = {**place, "annotation_index": index, "annotation": source}
            self.put("response.output_text.annotation.added", cited)
        self.put(f"response.{kind}.done", {**place, member: part[member], **more})
        self.put("response.content_part.done", {**place, "part": part})
        self._end(item, place)

    def _reasoning(self, item: Item, place: dict[str, Any]) -> None:
        """The summary comes in parts of its own."""
        self._begin(item, place, summary=[])
        for index, part in enumerate(item["summary"]):
            inner = {**place, "summary_index": index}
            opening = {**inner, "part": {**part, "text": ""}}
            self.put("response.reasoning_summary_part.added", opening)
            told = {**inner, "delta": part["text"]}
            self.put("response.reasoning_summary_text.delta", told)
            self.put("response.reasoning_summary_text.done", {**inner, "text": part["text"]})
            self.put("response.reasoning_summary_part.done", {**inner, "part": part})
        self._end(item, place)
        self.text_end = len(self.frames)

    def _search(self, item: Item, place: dict[str, Any]) -> None:
        begun = {name: value for name, value in item.items() if name != "action"}
        self._begin(begun, place)
        for state in ("in_progress", "searching", "completed"):
            self.put(f"response.web_search_call.{state}", place)
        self._end(item, place)
        self.text_end = len(self.frames)

    def _picture(self, item: Item, place: dict[str, Any]) -> None:
        self._begin(item, place, result=None)
        self.put("response.image_generation_call.in_progress", place)
        self.put("response.image_generation_call.generating", place)
        shown = {name: item[name] for name in ("background", "output_format", "quality", "size")}
        for index in range(self._partial_images):
            draft = {"partial_image_index": index, "partial_image_b64": png_base64(), **shown}
            self.put("response.image_generation_call.partial_image", {**place, **draft})
        self.put("response.image_generation_call.completed", place)
        self._end(item, place)
        self.text_end = len(self.frames)

    def _call(self, item: Item, place: dict[str, Any]) -> None:
        self._begin(item, place, arguments="")
        for piece in argument_pieces(item["arguments"]):
            self.put("response.function_call_arguments.delta", {**place, "delta": piece})
        done = {**place, "arguments": item["arguments"]}
        self.put("response.function_call_arguments.done", done)
        self._end(item, place)

    _WRITERS: ClassVar[Mapping[str, Callable[[EventWriter, Item, dict[str, Any]], None]]] = {
        "message": _message,
        "reasoning": _reasoning,
        "web_search_call": _search,
        "image_generation_call": _picture,
        "function_call": _call,
    }
