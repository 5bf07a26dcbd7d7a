"""The content blocks of a messages request as canonical parts.

Blocks that only this provider has (its own tools' calls and results, stored files) are left over by
name; the conversation around them is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from channels.dialects.messages.billing_header import FIELD, without_line
from channels.dialects.messages.media import SourceKind, read_source
from channels.families import MESSAGES
from channels.json.lenient import dumps, text_in
from channels.translation import model
from channels.translation.signatures import UNSIGNED, opened

# Members of each block that become fields; the others are extras.
_KNOWN = {
    "text": {"type", "text"},
    "image": {"type", "source"},
    "document": {"type", "source", "title"},
    "search_result": {"type", "source", "title", "content"},
    "tool_reference": {"type", "tool_name"},
    "compaction": {"type", "content", "encrypted_content", "signature"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}


class BlockReader:
    """Decodes the blocks of one request; keeps the calls' names for their results."""

    __slots__ = ("_names", "left_over")

    def __init__(self, left_over: dict[str, object]) -> None:
        self.left_over = left_over
        self._names: dict[str, str] = {}

    def read(self, content: object) -> list[model.Part]:
        """Return the parts of a `content` member: a string, or blocks."""
        if isinstance(content, str):
            return [model.Text(content)] if content else []
        parts: list[model.Part] = []
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping):
                parts.extend(self._read_block(block))
        return parts

    def read_texts(self, content: object, path: str) -> list[model.Text]:
        """Return the texts of a `system` member, which allows nothing else."""
        texts = []
        for part in self.read(content):
            if not isinstance(part, model.Text):
                self.left_over[path] = True
            elif (kept := without_line(part.text)) is None:
                texts.append(part)
            else:
                self.left_over[FIELD] = True
                if kept.strip():
                    texts.append(replace(part, text=kept))
        return texts

    def _read_block(self, block: Mapping[str, object]) -> list[model.Part]:
        kind = block.get("type")
        known = _KNOWN.get(kind, {"type"}) if isinstance(kind, str) else {"type"}
        extras = {
            name: value for name, value in block.items() if name not in known and value is not None
        }
        parts: list[model.Part] | None = None
        if kind == "text":
            text = text_in(block, "text")
            parts = [model.Text(text, extras)] if text else []
        elif kind == "image" or kind == "document":
            parts = self._read_media(kind, block, extras)
        elif kind in ("thinking", "redacted_thinking"):
            parts = _read_thinking(block)
        elif kind == "tool_use":
            parts = [self._read_call(block, extras)]
        elif kind == "tool_result":
            parts = [self._read_result(block, extras)]
        elif kind == "tool_reference":
            # A tool that the provider's search found: its name is the result.
            self.left_over["messages.tool_reference"] = True
            parts = [model.Text(f"Tool found: {text_in(block, 'tool_name')}", extras)]
        elif kind == "compaction":
            # What is left of the conversation before it: the summary is said as text.
            self.left_over["messages.compaction"] = True
            summary = text_in(block, "content")
            parts = [model.Text(summary, extras)] if summary else []
        elif kind == "search_result":
            # Its text is kept, but not that it was a search result.
            self.left_over["messages.search_result"] = True
            head = " ".join(filter(None, (text_in(block, "title"), text_in(block, "source"))))
            parts = [model.Text(head, extras), *self.read(block.get("content"))]
        if parts is None:
            self.left_over[f"messages.{kind}"] = True
            return []
        return parts

    def _read_media(
        self,
        kind: SourceKind,
        block: Mapping[str, object],
        extras: dict[str, object],
    ) -> list[model.Part]:
        media = read_source(kind, block, extras)
        if media is not None:
            return [media]
        source = block.get("source")
        form = source.get("type") if isinstance(source, Mapping) else None
        if form == "content" and isinstance(source, Mapping):
            # A document made of blocks is replaced by those blocks.
            self.left_over["messages.document.source"] = True
            return self.read(source.get("content"))
        self.left_over[f"messages.{kind}.source.{form}"] = True
        return []

    def _read_call(self, block: Mapping[str, object], extras: dict[str, object]) -> model.ToolCall:
        call_id, name = text_in(block, "id"), text_in(block, "name")
        self._names[call_id] = name
        given = block.get("input")
        return model.ToolCall(call_id, name, arguments_of(given), extras=extras)

    def _read_result(
        self, block: Mapping[str, object], extras: dict[str, object]
    ) -> model.ToolResult:
        call_id = text_in(block, "tool_use_id")
        parts = tuple(
            part
            for part in self.read(block.get("content"))
            if isinstance(part, model.Text | model.Media)
        )
        return model.ToolResult(
            call_id,
            self._names.get(call_id),
            parts,
            is_error=block.get("is_error") is True,
            extras=extras,
        )


def arguments_of(given: object) -> str:
    """Return a call's `input` as JSON text; a string is taken as such text."""
    if not given:
        return "{}"
    return given if isinstance(given, str) else dumps(given).decode()


def _read_thinking(block: Mapping[str, object]) -> list[model.Part]:
    data = text_in(block, "data")
    if data:
        data, signer = opened(data, own=MESSAGES.protocol)
        return [model.Thinking("", redacted=data, signer=signer)]
    text = text_in(block, "thinking")
    signature = text_in(block, "signature")
    if signature and signature != UNSIGNED:
        signature, signer = opened(signature, own=MESSAGES.protocol)
        return [model.Thinking(text, signature=signature, signer=signer)]
    return [model.Thinking(text)] if text else []
