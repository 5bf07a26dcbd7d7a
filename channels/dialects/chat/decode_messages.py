"""Read the messages of a chat-completions request into system texts and turns.

The first system and developer messages are the instructions; later ones stay where they are. What
tools gave back goes into the user's turns, by the id or, before there were ids, by the name of the
call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from channels.dialects.chat.content import read_content
from channels.dialects.chat.thinking import read_call_signature, read_thinking, settled
from channels.dialects.chat.tool_calls import is_placeholder
from channels.json.text import call_arguments, dumps
from channels.translation.identifiers import made_id
from channels.translation.model import (
    Media,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from channels.translation.open_calls import OpenCalls
from channels.translation.turns import EMPTY, merged

_KNOWN = frozenset(
    (
        "role",
        "content",
        "name",
        "tool_call_id",
        "tool_calls",
        "function_call",
        "refusal",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    )
)


@dataclass(slots=True)
class MessagesDecoder:
    """Reads one message after the other; `left_over` are members and parts we do not hold.

    `empty` are the paths of the messages that say nothing.
    """

    system: list[Text] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    left_over: dict[str, Any] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)  # of calls, by id
    _open: OpenCalls = field(default_factory=OpenCalls)
    _calls: int = 0
    _has_spoken: bool = False  # anybody, so that instructions are later ones

    def merged_turns(self) -> tuple[Turn, ...]:
        """The turns read so far, in order, neighbours merged."""
        turns = self.turns
        if any(one.role == two.role and one.name != two.name for one, two in pairwise(turns)):
            self.left_over["messages.name"] = True
        return tuple(
            replace(turn, parts=_in_order(turn.parts)) if turn.role == "assistant" else turn
            for turn in merged(turns)
        )

    def read(self, message: Mapping[str, Any], path: str) -> None:
        """Take the next message; `path` is its path."""
        for name, value in message.items():
            if name not in _KNOWN and value not in (None, [], {}):
                self.left_over[f"messages.{name}"] = value
        role = message.get("role")
        if role == "assistant":
            self._read_assistant(message, path)
        elif role == "user":
            parts = _spoken(read_content(message.get("content"), self.left_over))
            self._add(Turn("user", parts, _string(message, "name")), path)
        elif role in ("tool", "function"):
            self._read_result(message)
        else:
            self._read_system(message)

    def _add(self, turn: Turn, path: str) -> None:
        """Take a turn, which may say nothing."""
        if not turn.parts:
            self.empty.append(f"{path}.content")
            turn = replace(turn, parts=(EMPTY,))
        else:
            self._has_spoken = True
        self.turns.append(turn)

    def _read_system(self, message: Mapping[str, Any]) -> None:
        parts = _spoken(read_content(message.get("content"), self.left_over))
        texts = [part for part in parts if isinstance(part, Text)]
        for part in parts:
            if isinstance(part, Media):
                self.left_over[f"messages.{part.kind}_url"] = part
        if _string(message, "name"):
            self.left_over["messages.name"] = message["name"]
        if self._has_spoken:
            if texts:  # no instructions are as good as empty ones
                spoken = tuple(replace(text, is_system=True) for text in texts)
                self.turns.append(Turn("user", spoken))
        else:
            self.system.extend(texts)

    def _read_assistant(self, message: Mapping[str, Any], path: str) -> None:
        parts: list[Part] = list(read_thinking(message))
        parts.extend(read_content(message.get("content"), self.left_over))
        if refusal := _string(message, "refusal"):
            parts.append(Refusal(refusal))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                parts.extend(self._read_call(call))
        if isinstance(call := message.get("function_call"), Mapping):
            parts.extend(self._read_call({"function": call}))
        self._add(Turn("assistant", tuple(parts), _string(message, "name")), path)

    def _read_call(self, call: Mapping[str, Any]) -> list[ToolCall]:
        """The call; none where a client sends back what its upstream put instead of one."""
        function = call.get("function")
        if not isinstance(function, Mapping):
            function = self._custom(call)
        name = _string(function, "name") or ""
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = dumps({} if arguments is None else arguments).decode()
        call_id = _string(call, "id")
        if call_id is None and is_placeholder(name, arguments):
            return []
        self._calls += 1
        call_id = call_id or made_id(str(self._calls), name)
        signature, signer = read_call_signature(call)
        self._names[call_id] = name
        self._open.add(name, call_id)
        arguments = call_arguments(arguments)
        return [ToolCall(call_id, name, arguments, signature=signature, signer=signer)]

    def _custom(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call of a tool that takes free text, as a function of one argument."""
        self.left_over["messages.tool_calls.custom"] = True
        custom = call.get("custom")
        if not isinstance(custom, Mapping):
            return {}
        return {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}

    def _read_result(self, message: Mapping[str, Any]) -> None:
        parts = _spoken(read_content(message.get("content"), self.left_over))
        name = _string(message, "name")
        call_id = _string(message, "tool_call_id")
        if call_id is None:
            call_id = self._oldest_open(name)
        self._open.resolve(call_id)
        result = ToolResult(call_id, self._names.get(call_id, name), parts)
        self._has_spoken = True
        self.turns.append(Turn("user", (result,)))

    def _oldest_open(self, name: str | None) -> str:
        """The id of the first call, of this name if there is one, that nothing answered yet."""
        return self._open.oldest(name) or made_id(str(self._calls), name or "")


def _in_order(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The order in which one message of the model's says things: thinking first, calls last."""
    thoughts = settled([part for part in parts if isinstance(part, Thinking)])
    refusals = [part for part in parts if isinstance(part, Refusal)]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    rest = [part for part in parts if not isinstance(part, Thinking | Refusal | ToolCall)]
    return (*thoughts, *rest, *refusals, *calls)


def _spoken(parts: list[Text | Media | Refusal]) -> tuple[Text | Media, ...]:
    """Parts as the user or a tool may say them: a refusal is text there."""
    return tuple(Text(part.text) if isinstance(part, Refusal) else part for part in parts)


def _string(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    return value if isinstance(value, str) and value else None
