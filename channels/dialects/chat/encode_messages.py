"""Write system texts and turns as chat-completions messages.

Tool results become messages of their own, right after the turn that called; what else the user
said follows them. Images within a result follow as the user's, as a tool's message holds text only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from channels.dialects.chat.content import write_content
from channels.dialects.chat.origin import ORIGIN
from channels.dialects.chat.thinking import call_signature, members_of
from channels.translation.field_names import spelled
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
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


class MessageWriter:
    """Writes the messages of one request, which came in the protocol `origin`."""

    __slots__ = ("_limits", "_messages", "_origin", "_report")

    def __init__(
        self, origin: ClientProtocol, report: LossReport, limits: IdentifierLimits
    ) -> None:
        self._origin = origin
        self._report = report
        self._limits = limits
        self._messages: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"<MessageWriter from {self._origin.protocol}, {len(self._messages)} messages>"

    def write(self, system: Sequence[Text], turns: Iterable[Turn]) -> list[dict[str, Any]]:
        """All messages, in order: of a turn that says nothing here an empty one."""
        if system:
            self._write_spoken("system", system, is_instruction=True)
        for turn in turns:
            if turn.role == "user":
                self._write_user(turn)
            else:
                self._write_assistant(turn)
        return self._messages

    def _write_user(self, turn: Turn) -> None:
        follows: list[Text | Media] = []
        rest: list[Text | Media] = []
        for part in turn.parts:
            if isinstance(part, ToolResult):
                follows.extend(self._write_result(part))
            elif isinstance(part, Text | Media):
                rest.append(part)
            elif isinstance(part, Refusal):
                rest.append(Text(part.text))
            else:
                report_part(self._origin, part, self._report)
        spoken = [*follows, *rest]
        for is_system, parts in groupby(spoken, lambda part: _is_system(part)):
            self._write_spoken("system" if is_system else "user", list(parts), name=turn.name)

    def _write_spoken(
        self,
        role: str,
        parts: Sequence[Text | Media],
        *,
        name: str | None = None,
        is_instruction: bool = False,
    ) -> None:
        field = self._origin.system
        if is_instruction and field is not None:
            for part in parts:
                report_extras(self._origin, field, part.extras, self._report)
            parts = [Text(part.text) for part in parts if isinstance(part, Text)]
        content = write_content(parts, origin=self._origin, report=self._report)
        message: dict[str, Any] = {"role": role, "content": "" if content is None else content}
        if name is not None:
            message["name"] = name
        self._messages.append(message)

    def _write_result(self, result: ToolResult) -> list[Media]:
        """Write one result; its media are handed back, to follow all results."""
        report_extras(self._origin, self._origin.parts, result.extras, self._report)
        if result.is_error:
            self._report.drop(spelled(self._origin, "is_error"))
        media: list[Media] = []
        if self._origin is not ORIGIN:  # whose upstream takes what the client has put there
            media = [part for part in result.parts if isinstance(part, Media)]
        parts = [part for part in result.parts if not (media and isinstance(part, Media))]
        content = write_content(parts, origin=self._origin, report=self._report)
        self._messages.append(
            {
                "role": "tool",
                "tool_call_id": self._limits.call_id(result.call_id),
                "content": "" if content is None else content,
            }
        )
        return media

    def _write_assistant(self, turn: Turn) -> None:
        members: dict[str, Any] = {}
        texts = [part for part in turn.parts if isinstance(part, Text)]
        content = write_content(texts, origin=self._origin, report=self._report)
        if content is not None:
            members["content"] = content
        refusals = [part.text for part in turn.parts if isinstance(part, Refusal)]
        if len(refusals) == 1:
            members["refusal"] = refusals[0]
        elif refusals:
            text_parts = (
                [{"type": "text", "text": content}] if isinstance(content, str) else content
            )
            refused = [{"type": "refusal", "refusal": text} for text in refusals]
            members["content"] = [*(text_parts or ()), *refused]
        if calls := [self._call(part) for part in turn.parts if isinstance(part, ToolCall)]:
            members["tool_calls"] = calls
        thinking = [part for part in turn.parts if isinstance(part, Thinking)]
        if self._origin is ORIGIN:
            members.update(members_of(thinking))
        elif thinking:
            # The documented protocol has no member for it.
            self._report.drop(spelled(self._origin, "thinking"))
        for part in turn.parts:
            if isinstance(part, Media | ToolResult):
                report_part(self._origin, part, self._report)
        if not calls and not refusals:
            members.setdefault("content", "")
        if turn.name is not None:
            members["name"] = turn.name
        self._messages.append({"role": "assistant", **members})

    def _call(self, call: ToolCall) -> dict[str, Any]:
        written: dict[str, Any] = {
            "id": self._limits.call_id(call.id),
            "type": "function",
            "function": {"name": self._limits.name(call.name), "arguments": call.arguments},
        }
        if self._origin is ORIGIN:
            return {**written, **call_signature(call.signature, call.signer)}
        if call.signature is not None:
            self._report.drop(spelled(self._origin, "call.signature"))
        report_extras(self._origin, self._origin.parts, call.extras, self._report)
        return written


def _is_system(part: Text | Media) -> bool:
    return isinstance(part, Text) and part.is_system
