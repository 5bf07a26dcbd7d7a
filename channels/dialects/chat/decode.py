"""Decode a chat-completions request into the canonical one.

The body has been checked by `channels/dialects/chat`; a wrong type in a member that is read only
here is an InvalidRequest. The messages are `decode_messages.py`'s part, the way back `encode.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from channels.dialects.chat.decode_messages import MessagesDecoder
from channels.dialects.chat.origin import ORIGIN
from channels.errors import InvalidRequest
from channels.translation.model import Effort, Format, Reasoning, Request, Tool, ToolChoice
from channels.translation.object_reader import Members

_EFFORTS = frozenset(get_args(Effort))


def decode_request(body: Mapping[str, Any]) -> Request:
    """The canonical request. Raises InvalidRequest naming the member at fault."""
    members = Members(body)
    left_over: dict[str, Any] = {}
    conversation = MessagesDecoder(left_over=left_over)
    for index, message in enumerate(members.array("messages")):
        conversation.read(message, f"messages[{index}]")
    for name in ("model", "stream"):
        members.any(name)
    maximum = members.integer("max_completion_tokens")
    other_maximum = members.integer("max_tokens")
    _read_stream_options(members, left_over)
    return Request(
        origin=ORIGIN,
        system=tuple(conversation.system),
        turns=conversation.merged_turns(),
        empty=tuple(conversation.empty),
        tools=_read_tools(members, left_over),
        tool_choice=_read_tool_choice(members, left_over),
        parallel_tools=members.boolean("parallel_tool_calls"),
        max_tokens=maximum if maximum is not None else other_maximum,
        temperature=members.number("temperature"),
        top_p=members.number("top_p"),
        top_k=members.integer("top_k"),
        stop=_read_stop(members),
        seed=members.integer("seed"),
        frequency_penalty=members.number("frequency_penalty"),
        presence_penalty=members.number("presence_penalty"),
        count=members.integer("n"),
        format=_read_format(members, left_over),
        reasoning=_read_effort(members, left_over),
        user=members.text("user"),
        # Behind all others, for it is what none of them has read.
        extras={**left_over, **members.rest()},
    )


def _read_stream_options(members: Members, left_over: dict[str, Any]) -> None:
    options = members.object("stream_options")
    if options is not None:
        options.any("include_usage")
        for name, value in options.rest().items():
            left_over[f"stream_options.{name}"] = value


def _read_tools(members: Members, left_over: dict[str, Any]) -> tuple[Tool, ...]:
    tools = []
    for tool in members.objects("tools"):
        kind = tool.text("type")
        function = tool.object("function")
        if kind != "function" or function is None:
            # Kept as it came: one of the upstream's own goes there unchanged, or is listed.
            left_over.setdefault(f"tools.{kind}", []).append(tool.whole())
        else:
            tools.append(_read_function(function, tool.rest()))
    for function in members.objects("functions"):
        tools.append(_read_function(function, {}))
    return tuple(tools)


def _read_function(function: Members, extras: dict[str, Any]) -> Tool:
    name = function.text("name")
    if not name:
        raise InvalidRequest(f"{function.path('name')} is missing.", function.path("name"))
    return Tool(
        name,
        description=function.text("description"),
        parameters=function.mapping("parameters"),
        is_strict=function.boolean("strict"),
        extras={**extras, **function.rest()},
    )


def _read_tool_choice(members: Members, left_over: dict[str, Any]) -> ToolChoice | None:
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
        return ToolChoice(choice)
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        function = choice.get("function")
        if kind == "function" and isinstance(function, Mapping):
            named = function.get("name")
            if isinstance(named, str) and named:
                return ToolChoice("named", named)
        allowed = choice.get("allowed_tools")
        if kind == "allowed_tools" and isinstance(allowed, Mapping):
            return _read_allowed(allowed, left_over)
    left_over[name] = choice
    return None


def _read_allowed(allowed: Mapping[str, Any], left_over: dict[str, Any]) -> ToolChoice:
    names = []
    tools = allowed.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            names.append(name)
        elif isinstance(tool, Mapping) and function is None:
            left_over.setdefault("tool_choice.allowed_tools.tools", []).append(tool)
    mode = allowed.get("mode")
    return ToolChoice("required" if mode == "required" else "auto", allowed=tuple(names))


def _read_stop(members: Members) -> tuple[str, ...]:
    stop = members.any("stop")
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    if isinstance(stop, list) and all(isinstance(text, str) for text in stop):
        return tuple(stop)
    raise InvalidRequest("stop: expected a string or an array of strings.", "stop")


def _read_format(members: Members, left_over: dict[str, Any]) -> Format | None:
    stated = members.object("response_format")
    if stated is None:
        return None
    kind = stated.text("type")
    if kind == "text":
        return Format("text")
    if kind == "json_object":
        return Format("json")
    schema = stated.object("json_schema")
    if kind == "json_schema" and schema is not None:
        return Format(
            "schema",
            name=schema.text("name"),
            schema=schema.mapping("schema"),
            is_strict=schema.boolean("strict"),
            description=schema.text("description"),
        )
    left_over["response_format"] = members.any("response_format")
    return None


def _read_effort(members: Members, left_over: dict[str, Any]) -> Reasoning | None:
    effort = members.text("reasoning_effort")
    if effort is None:
        return None
    if effort in _EFFORTS:
        return Reasoning(effort=cast(Effort, effort))
    left_over["reasoning_effort"] = effort
    return None
