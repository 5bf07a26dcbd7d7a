"""Write system texts and turns as the instructions and the input of a responses request.

A turn becomes messages, calls and results, each an item of its own. Instructions given in the
middle of a conversation stay there, under the role that says what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from channels.families import RESPONSES
from channels.translation.field_names import spelled
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
from channels.translation.media import data_uri, split_markdown
from channels.translation.model import (
    ClientProtocol,
    Media,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from channels.translation.unsupported import report_extras, report_part

# Where a prompt's cached beginning ends: the one thing both protocols say beside a part.
_BREAKPOINT = "prompt_cache_breakpoint"
# The protocol wants a name for every inline file.
_FILE_NAMES = {"application/pdf": "document.pdf"}

_OWN = RESPONSES.protocol


class ItemWriter:
    """Writes the items of one request, which came in the protocol `origin`."""

    __slots__ = ("_items", "_limits", "_origin", "_report")

    def __init__(
        self, origin: ClientProtocol, report: LossReport, limits: IdentifierLimits
    ) -> None:
        self._origin = origin
        self._report = report
        self._limits = limits
        self._items: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"<ItemWriter from {self._origin.protocol}, {len(self._items)} items>"

    def write(
        self, system: Sequence[Text], turns: Iterable[Turn]
    ) -> tuple[str, list[dict[str, Any]]]:
        """The instructions, and all items in order: at least one, as upstreams refuse none."""
        for text in system:
            self._lose_extras(text)
        for turn in turns:
            if turn.name is not None:
                self._report.drop(spelled(self._origin, "turn.name"))
            if turn.role == "user":
                self._write_user(turn)
            else:
                self._write_assistant(turn)
        instructions = "\n\n".join(text.text for text in system)
        if not self._items:
            self._put("developer", [{"type": "input_text", "text": instructions}])
            return "", self._items
        return instructions, self._items

    def _write_user(self, turn: Turn) -> None:
        spoken: list[tuple[str, dict[str, Any]]] = []
        for part in turn.parts:
            if isinstance(part, ToolResult):
                self._write_result(part)
            elif isinstance(part, Text | Media):
                written = self._content(part)
                if written is not None:
                    is_system = isinstance(part, Text) and part.is_system
                    spoken.append(("developer" if is_system else "user", written))
            elif isinstance(part, Refusal):
                spoken.append(("user", {"type": "input_text", "text": part.text}))
            else:
                report_part(self._origin, part, self._report)
        for role, parts in groupby(spoken, lambda one: one[0]):
            self._put(role, [written for _, written in parts])

    def _write_assistant(self, turn: Turn) -> None:
        message_parts: list[dict[str, Any]] = []
        shown: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        for part in turn.parts:
            if isinstance(part, Text):
                self._lose_extras(part)
                for piece in split_markdown(part.text) or [""]:  # an empty message is one
                    if isinstance(piece, Media):
                        shown.append({"type": "input_image", "image_url": data_uri(piece)})
                    else:
                        message_parts.append({"type": "output_text", "text": piece})
            elif isinstance(part, Refusal):
                message_parts.append({"type": "refusal", "refusal": part.text})
            elif isinstance(part, ToolCall):
                calls.append(self._call(part))
            elif isinstance(part, Thinking) and part.signature and part.signer == _OWN:
                self._items.append(_reasoning(part.text, part.signature))
            else:
                report_part(self._origin, part, self._report)
        if not (message_parts or shown or calls):
            message_parts.append({"type": "output_text", "text": ""})  # it was all thinking
        if message_parts:
            self._put("assistant", message_parts)
        if shown:
            # What an earlier answer drew comes back as text, which a model would read letter by
            # letter. Only the user may show an image.
            self._put("user", shown)
        self._items += calls

    def _put(self, role: str, content: list[dict[str, Any]]) -> None:
        self._items.append({"type": "message", "role": role, "content": content})

    def _call(self, call: ToolCall) -> dict[str, Any]:
        if call.signature is not None:
            self._report.drop(spelled(self._origin, "call.signature"))
        report_extras(self._origin, "messages.", call.extras, self._report)
        return {
            "type": "function_call",
            "call_id": self._limits.call_id(call.id),
            "name": self._limits.name(call.name),
            "arguments": call.arguments,
        }

    def _write_result(self, result: ToolResult) -> None:
        report_extras(self._origin, "messages.", result.extras, self._report)
        if result.is_error:
            self._report.drop(spelled(self._origin, "is_error"))
        parts = [written for part in result.parts if (written := self._content(part)) is not None]
        output: str | list[dict[str, Any]] = parts
        if all(part["type"] == "input_text" for part in parts):
            output = "".join(part["text"] for part in parts)
        self._items.append(
            {
                "type": "function_call_output",
                "call_id": self._limits.call_id(result.call_id),
                "output": output,
            }
        )

    def _content(self, part: Text | Media) -> dict[str, Any] | None:
        """A part as the user or a tool says it; None where there is no way to."""
        self._lose_extras(part, carried=(_BREAKPOINT,))
        written: dict[str, Any]
        if isinstance(part, Text):
            written = {"type": "input_text", "text": part.text}
        elif part.kind == "image":
            url = part.url if part.data is None else data_uri(part)
            written = {"type": "input_image", "image_url": url}
            if part.detail is not None:
                written["detail"] = part.detail
        elif part.kind == "document":
            written = _file(part)
        else:
            report_part(self._origin, part, self._report)
            return None
        if part.extras.get(_BREAKPOINT) is not None:
            written[_BREAKPOINT] = part.extras[_BREAKPOINT]
        return written

    def _lose_extras(self, part: Text | Media, *, carried: tuple[str, ...] = ()) -> None:
        report_extras(self._origin, "messages.", part.extras, self._report, carried=carried)


def _reasoning(text: str, proof: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": proof}


def _file(media: Media) -> dict[str, Any]:
    if media.url is not None:
        return {"type": "input_file", "file_url": media.url}
    name = media.name or _FILE_NAMES.get(media.mime_type or "", "document")
    return {"type": "input_file", "filename": name, "file_data": data_uri(media)}
