"""Decode a chat-completions request into the canonical one.

The body has been checked by `request.py`; a wrong type in a member that is read only here is an
InvalidRequest. `encode.py` is the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from channels.dialects.chat.content import read_content
from channels.dialects.chat.members import (
    ORIGIN,
    SchemaFormat,
    TranslatedChat,
    TranslatedFunction,
)
from channels.dialects.chat.thinking import read_call_signature, read_thinking, settled
from channels.dialects.chat.tool_calls import is_placeholder
from channels.dialects.same_fields import read_fields
from channels.errors import InvalidRequest
from channels.json.lenient import dumps, text_in
from channels.translation import model
from channels.translation.body_members import Members
from channels.translation.call_arguments import call_arguments
from channels.translation.identifiers import made_id
from channels.translation.kept_tools import StatedTools, ToolKeeper, value_of
from channels.translation.open_calls import OpenCalls
from channels.translation.turns import EMPTY, merged, without_refusals

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
    """Decodes one message after the other to system texts and turns.

    The first system and developer messages are the instructions; later ones keep their position.
    Tool results become part of the user's turns, matched by id or, as before ids existed, by the
    name of the call. `left_over` are unsupported members and parts, `empty` the paths of the empty
    messages.
    """

    system: list[model.Text] = field(default_factory=list)
    turns: list[model.Turn] = field(default_factory=list)
    left_over: dict[str, object] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)  # of calls, by id
    _open: OpenCalls = field(default_factory=OpenCalls)
    _calls: int = 0
    _has_spoken: bool = False  # whether any turn precedes, so that instructions are later ones

    def merged_turns(self) -> tuple[model.Turn, ...]:
        """Return the turns so far, with adjacent ones merged."""
        turns = self.turns
        if any(one.role == two.role and one.name != two.name for one, two in pairwise(turns)):
            self.left_over["messages.name"] = True
        return tuple(
            replace(turn, parts=_in_order(turn.parts)) if turn.role == "assistant" else turn
            for turn in merged(turns)
        )

    def read(self, message: Mapping[str, object], path: str) -> None:
        """Add the next message, which is at `path`."""
        for name, value in message.items():
            if name not in _KNOWN and value not in (None, [], {}):
                self.left_over[f"messages.{name}"] = value
        role = message.get("role")
        if role == "assistant":
            self._read_assistant(message, path)
        elif role == "user":
            parts = without_refusals(read_content(message.get("content"), self.left_over))
            self._add(model.Turn("user", parts, text_in(message, "name") or None), path)
        elif role in ("tool", "function"):
            self._read_result(message)
        else:
            self._read_system(message)

    def _add(self, turn: model.Turn, path: str) -> None:
        """Add a turn, which may be empty."""
        if not turn.parts:
            self.empty.append(f"{path}.content")
            turn = replace(turn, parts=(EMPTY,))
        else:
            self._has_spoken = True
        self.turns.append(turn)

    def _read_system(self, message: Mapping[str, object]) -> None:
        parts = without_refusals(read_content(message.get("content"), self.left_over))
        texts = [part for part in parts if isinstance(part, model.Text)]
        for part in parts:
            if isinstance(part, model.Media):
                self.left_over[f"messages.{part.kind}_url"] = part
        if text_in(message, "name"):
            self.left_over["messages.name"] = message["name"]
        if self._has_spoken:
            if texts:  # no instructions are equivalent to empty ones
                spoken = tuple(replace(text, is_system=True) for text in texts)
                self.turns.append(model.Turn("user", spoken))
        else:
            self.system.extend(texts)

    def _read_assistant(self, message: Mapping[str, object], path: str) -> None:
        parts: list[model.Part] = list(read_thinking(message))
        parts.extend(read_content(message.get("content"), self.left_over))
        if refusal := text_in(message, "refusal"):
            parts.append(model.Refusal(refusal))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                parts.extend(self._read_call(call))
        if isinstance(call := message.get("function_call"), Mapping):
            parts.extend(self._read_call({"function": call}))
        self._add(model.Turn("assistant", tuple(parts), text_in(message, "name") or None), path)

    def _read_call(self, call: Mapping[str, object]) -> list[model.ToolCall]:
        """Decode a call; none for the placeholder that some upstreams send instead of a call."""
        function = call.get("function")
        if not isinstance(function, Mapping):
            function = self._custom(call)
        name = text_in(function, "name")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = dumps({} if arguments is None else arguments).decode()
        call_id = text_in(call, "id") or None
        if call_id is None and is_placeholder(name, arguments):
            return []
        self._calls += 1
        call_id = call_id or made_id(str(self._calls), name)
        signature, signer = read_call_signature(call)
        self._names[call_id] = name
        self._open.add(name, call_id)
        arguments = call_arguments(arguments)
        return [model.ToolCall(call_id, name, arguments, signature=signature, signer=signer)]

    def _custom(self, call: Mapping[str, object]) -> dict[str, object]:
        """Convert a call of a tool with free text to a function with one argument."""
        self.left_over["messages.tool_calls.custom"] = True
        custom = call.get("custom")
        if not isinstance(custom, Mapping):
            return {}
        return {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}

    def _read_result(self, message: Mapping[str, object]) -> None:
        parts = without_refusals(read_content(message.get("content"), self.left_over))
        name = text_in(message, "name") or None
        call_id = text_in(message, "tool_call_id") or None
        if call_id is None:
            call_id = self._oldest_open(name)
        self._open.resolve(call_id)
        result = model.ToolResult(call_id, self._names.get(call_id, name), parts)
        self._has_spoken = True
        self.turns.append(model.Turn("user", (result,)))

    def _oldest_open(self, name: str | None) -> str:
        """Return the id of the first call without a result, of this name if given."""
        return self._open.oldest(name) or made_id(str(self._calls), name or "")


def _in_order(parts: tuple[model.Part, ...]) -> tuple[model.Part, ...]:
    """Order the parts of one message of the model: thinking first, calls last."""
    thoughts = settled([part for part in parts if isinstance(part, model.Thinking)])
    refusals = [part for part in parts if isinstance(part, model.Refusal)]
    calls = [part for part in parts if isinstance(part, model.ToolCall)]
    rest = [
        part
        for part in parts
        if not isinstance(part, model.Thinking | model.Refusal | model.ToolCall)
    ]
    return (*thoughts, *rest, *refusals, *calls)


def decode_request(body: Mapping[str, object]) -> model.Request:
    """Return the canonical request; `tools` may be JSON text, whose meaning is kept.

    Raises InvalidRequest with the faulty member.
    """
    members = Members(body)
    left_over: dict[str, object] = {}
    fields = _read_messages(members, left_over)
    members.pass_over("model", "stream")
    fields |= read_fields(members, TranslatedChat)
    if (maximum := members.integer("max_completion_tokens")) is not None:
        fields["max_tokens"] = maximum
    if "stream_options" in body:
        _read_stream_options(members, left_over)
    fields |= read_others(members, left_over)
    # After all others, because it is what they have not read.
    fields["extras"] = {**left_over, **members.rest()}
    return model.Request(origin=ORIGIN, **fields)


def read_others(members: Members, left_over: dict[str, object]) -> dict[str, Any]:
    """Return the canonical fields of members that are not the same in other protocols.

    Raises InvalidRequest.
    """
    stated = members.whole().keys()
    return {
        field: read(members, left_over)
        for names, field, read in _READERS
        if not stated.isdisjoint(names)
    }


def _read_messages(members: Members, left_over: dict[str, object]) -> dict[str, Any]:
    conversation = MessagesDecoder(left_over=left_over)
    for index, message in enumerate(members.array("messages")):
        if isinstance(message, Mapping):
            conversation.read(message, f"messages[{index}]")
    return {
        "system": tuple(conversation.system),
        "turns": conversation.merged_turns(),
        "empty": tuple(conversation.empty),
    }


def _read_stream_options(members: Members, left_over: dict[str, object]) -> None:
    options = members.object("stream_options")
    if options is not None:
        options.any("include_usage")
        options.leave_over(left_over, "stream_options")


_KEEPER = ToolKeeper()


def _read_tools(members: Members, left_over: dict[str, object]) -> tuple[model.Tool, ...]:
    stated = members.any("tools")
    found = _KEEPER.find(stated)
    if found is None:
        found = _KEEPER.keep(stated, _stated_tools(value_of(stated)))
    tools = found.tools
    if functions := members.objects("functions"):
        tools = (*tools, *(_read_function(function, {}) for function in functions))
    left_over.update(found.left_over)
    return tools


def _stated_tools(stated: object) -> StatedTools:
    tools = []
    own: dict[str, list[object]] = {}
    for tool in Members({"tools": stated}).objects("tools"):
        kind = tool.text("type")
        function = tool.object("function")
        if kind != "function" or function is None:
            # Kept as received: the upstream's own tool is sent unchanged, or is reported.
            own.setdefault(f"tools.{kind}", []).append(tool.whole())
        else:
            tools.append(_read_function(function, tool.rest()))
    return StatedTools(tuple(tools), own)


def _read_function(function: Members, extras: dict[str, object]) -> model.Tool:
    function.required("name")
    fields = read_fields(function, TranslatedFunction)
    return model.Tool(**fields, extras={**extras, **function.rest()})


def _read_tool_choice(members: Members, left_over: dict[str, object]) -> model.ToolChoice | None:
    name = "tool_choice"
    choice = members.any(name)
    if choice is None:
        name = "function_call"
        choice = members.any(name)
        if isinstance(choice, Mapping):
            choice = {"type": "function", "function": choice}
    if choice is None:
        return None
    if choice in ("auto", "none", "required"):
        return model.ToolChoice(choice)
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        function = choice.get("function")
        if kind == "function" and isinstance(function, Mapping):
            named = function.get("name")
            if isinstance(named, str) and named:
                return model.ToolChoice("named", named)
        allowed = choice.get("allowed_tools")
        if kind == "allowed_tools" and isinstance(allowed, Mapping):
            return _read_allowed(allowed, left_over)
    left_over[name] = choice
    return None


def _read_allowed(allowed: Mapping[str, object], left_over: dict[str, object]) -> model.ToolChoice:
    names: list[str] = []
    own: list[object] = []
    tools = allowed.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            names.append(name)
        elif isinstance(tool, Mapping) and function is None:
            own.append(tool)
    if own:
        left_over["tool_choice.allowed_tools.tools"] = own
    mode = allowed.get("mode")
    return model.ToolChoice("required" if mode == "required" else "auto", allowed=tuple(names))


def _read_stop(members: Members, left_over: dict[str, object]) -> tuple[str, ...]:
    stop = members.any("stop")
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    if isinstance(stop, list) and all(isinstance(text, str) for text in stop):
        return tuple(stop)
    raise InvalidRequest("stop: expected a string or an array of strings.", "stop")


def _read_format(members: Members, left_over: dict[str, object]) -> model.Format | None:
    stated = members.object("response_format")
    if stated is None:
        return None
    kind = stated.text("type")
    if kind == "text":
        return model.Format("text")
    if kind == "json_object":
        return model.Format("json")
    schema = stated.object("json_schema")
    if kind == "json_schema" and schema is not None:
        return model.Format("schema", **read_fields(schema, SchemaFormat))
    left_over["response_format"] = members.any("response_format")
    return None


def _read_effort(members: Members, left_over: dict[str, object]) -> model.Reasoning | None:
    stated = members.text("reasoning_effort")
    if stated is None:
        return None
    if effort := model.EFFORTS.get(stated):
        return model.Reasoning(effort=effort)
    left_over["reasoning_effort"] = stated
    return None


# What is read of some members, in the order in which a fault is reported.
_READERS: tuple[
    tuple[tuple[str, ...], str, Callable[[Members, dict[str, object]], object]], ...
] = (
    (("tools", "functions"), "tools", _read_tools),
    (("tool_choice", "function_call"), "tool_choice", _read_tool_choice),
    (("stop",), "stop", _read_stop),
    (("response_format",), "format", _read_format),
    (("reasoning_effort",), "reasoning", _read_effort),
)
