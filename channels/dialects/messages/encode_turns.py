"""Write system texts and turns as the messages protocol wants them.

Roles alternate and the user speaks first, tool results stand first in their turn, no text is blank,
thinking comes back only with the proof that this provider gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from channels.dialects.messages.origin import ORIGIN
from channels.dialects.messages.sources import write_block
from channels.families import MESSAGES
from channels.json.text import arguments_object, object_in
from channels.translation.field_names import spelled, spelled_media
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
from channels.translation.model import (
    ClientProtocol,
    Media,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from channels.translation.sealed_signature import sealed
from channels.translation.turns import unsayable
from channels.translation.unsupported import report_extras

# What stands in for the user where a conversation begins with the model's words.
_OPENING = "."

_Message = dict[str, Any]


class TurnWriter:
    """Writes the turns of one request, which came in the protocol `origin`."""

    __slots__ = ("_has_system_turns", "_limits", "_origin", "_report")

    def __init__(
        self,
        origin: ClientProtocol,
        report: LossReport,
        limits: IdentifierLimits,
        *,
        has_system_turns: bool,
    ) -> None:
        self._origin = origin
        self._report = report
        self._limits = limits
        self._has_system_turns = has_system_turns

    def __repr__(self) -> str:
        return f"<TurnWriter from {self._origin.protocol}>"

    def write(
        self, system: Sequence[Text], turns: Iterable[Turn]
    ) -> tuple[str | list[dict[str, Any]] | None, list[_Message]]:
        """The `system` member, None where there is none, and the messages.

        Raises InvalidRequest for a turn of which nothing can be said, and where there is none.
        """
        messages: list[_Message] = []
        for turn in turns:
            written = self._write_turn(turn)
            if not any(blocks for _, blocks in written) and self._must_say(turn):
                raise unsayable(self._origin)
            for role, blocks in written:
                if messages and messages[-1]["role"] == role:
                    messages[-1]["content"].extend(blocks)
                elif blocks:
                    messages.append({"role": role, "content": blocks})
        blocks = [block for text in system if (block := self._text(text)) is not None]
        if not messages and self._origin is not ORIGIN:
            if not blocks:
                raise unsayable(self._origin)
            # Instructions alone are no conversation here: they are what is asked.
            self._report.drop(spelled(self._origin, "turn.role"))
            return None, [{"role": "user", "content": _shortest(blocks)}]
        self._open(messages)
        for message in messages:
            message["content"] = _shortest(message["content"])
        return _shortest(blocks) if blocks else None, messages

    def _open(self, messages: list[_Message]) -> None:
        """Mend the beginning and the end that the protocol refuses."""
        if self._origin is ORIGIN or not messages:
            return
        if messages[0]["role"] == "assistant":
            self._report.drop(spelled(self._origin, "turn.role"))
            opening = [{"type": "text", "text": _OPENING}]
            messages.insert(0, {"role": "user", "content": opening})
        last = messages[-1]
        if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            block = last["content"][-1]
            last["content"][-1] = {**block, "text": block["text"].rstrip()}

    def _must_say(self, turn: Turn) -> bool:
        """Whether the conversation is another one without this turn; instructions may be blank."""
        return self._origin is not ORIGIN and not all(map(_is_system, turn.parts))

    def _write_turn(self, turn: Turn) -> list[tuple[str, list[dict[str, Any]]]]:
        """The messages of a turn: one, but for instructions in between."""
        if turn.name is not None:
            self._report.drop(spelled(self._origin, "turn.name"))
        if turn.role == "assistant":
            return [("assistant", self._blocks(turn.parts, role="assistant"))]
        results = [part for part in turn.parts if isinstance(part, ToolResult)]
        rest = [part for part in turn.parts if not isinstance(part, ToolResult)]
        written = [("user", self._blocks(results, role="user"))]
        for is_system, group in groupby(rest, _is_system):
            role = "user"
            if is_system and self._has_system_turns:
                role = "system"
            elif is_system:
                self._report.drop(spelled(self._origin, "turn.role"))
            written.append((role, self._blocks(list(group), role="user")))
        return written

    def _blocks(self, parts: Sequence[Part], *, role: str) -> list[dict[str, Any]]:
        blocks = (self._block(part, role=role) for part in parts)
        return [block for block in blocks if block is not None]

    def _block(self, part: Part, *, role: str) -> dict[str, Any] | None:
        if isinstance(part, Text):
            return self._text(part)
        if isinstance(part, ToolCall):
            return self._call(part)
        if isinstance(part, ToolResult):
            return self._result(part)
        if isinstance(part, Thinking):
            return self._thinking(part)
        if isinstance(part, Refusal):
            return self._text(Text(part.text))
        block = write_block(part) if role == "user" or self._origin is ORIGIN else None
        if block is None:
            self._report.drop(spelled_media(self._origin, part))
            return None
        self._report_media(part, block)
        return {**block, **self._extras(part.extras)}

    def _report_media(self, media: Media, block: Mapping[str, Any]) -> None:
        if media.detail not in (None, "auto"):
            self._report.drop(spelled(self._origin, "media.detail"))
        if media.name is not None and "title" not in block:
            self._report.drop(spelled(self._origin, "media.name"))

    def _text(self, text: Text) -> dict[str, Any] | None:
        extras = self._extras(text.extras)
        if not text.text.strip() and self._origin is not ORIGIN:
            if "cache_control" in extras:
                self._report.drop(self._origin.parts + "cache_control")
            return None
        return {"type": "text", "text": text.text, **extras}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        if object_in(call.arguments) is None:
            self._report.drop(spelled(self._origin, "call.arguments"))
        if call.signature is not None:
            self._report.drop(spelled(self._origin, "call.signature"))
        return {
            "type": "tool_use",
            "id": self._limits.call_id(call.id),
            "name": self._limits.name(call.name),
            "input": arguments_object(call.arguments),
            **self._extras(call.extras),
        }

    def _result(self, result: ToolResult) -> dict[str, Any]:
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": self._limits.call_id(result.call_id),
        }
        blocks = self._blocks(result.parts, role="user")
        if blocks:
            block["content"] = _shortest(blocks)
        if result.is_error:
            block["is_error"] = True
        return {**block, **self._extras(result.extras)}

    def _thinking(self, part: Thinking) -> dict[str, Any] | None:
        """Thinking that this provider can check; as it came, when it came from this protocol."""
        signer = part.signer
        if signer is None or (signer != MESSAGES.protocol and self._origin is not ORIGIN):
            self._report.drop(spelled(self._origin, "thinking"))
            return None
        if part.redacted:
            data = sealed(part.redacted, signer, own=MESSAGES.protocol)
            return {"type": "redacted_thinking", "data": data}
        if not part.signature:
            self._report.drop(spelled(self._origin, "thinking"))
            return None
        signature = sealed(part.signature, signer, own=MESSAGES.protocol)
        return {"type": "thinking", "thinking": part.text, "signature": signature}

    def _extras(self, extras: Mapping[str, Any]) -> Mapping[str, Any]:
        """Members of a block: all of this protocol's own, and others' marks for the cache."""
        if self._origin is ORIGIN or not extras:
            return extras
        report_extras(
            self._origin,
            self._origin.parts,
            {name: value for name, value in extras.items() if name != "cache_control"},
            self._report,
        )
        mark = extras.get("cache_control")
        return {} if mark is None else {"cache_control": mark}


def _is_system(part: Part) -> bool:
    return isinstance(part, Text) and part.is_system


def _shortest(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Blocks as a string where one plain text is all there is."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return blocks
