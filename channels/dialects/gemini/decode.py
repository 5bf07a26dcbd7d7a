"""Decode a gemini request into the canonical one.

The body has been checked by `channels/dialects/gemini`; a wrong type in a member that is read only
here is an InvalidRequest. Parts are `parts.py`'s part, the generation config's members
`config.py`'s, the way back `encode.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from channels.dialects.gemini.config import read_config
from channels.dialects.gemini.decode_schema import read_schema
from channels.dialects.gemini.names import camel_keys
from channels.dialects.gemini.origin import ORIGIN
from channels.dialects.gemini.parts import PartReader, ThoughtPiece, joined
from channels.errors import InvalidRequest
from channels.translation.model import Part, Request, Text, Tool, ToolChoice, Turn
from channels.translation.object_reader import Members
from channels.translation.turns import EMPTY, merged

_TOOLS = "tools.functionDeclarations"
_CALLING = "toolConfig.functionCallingConfig"


def decode_request(body: Mapping[str, Any]) -> Request:
    """The canonical request. Raises InvalidRequest naming the member at fault."""
    members = Members(camel_keys(body))
    left_over: dict[str, Any] = {}
    members.any("model")
    reader = PartReader(left_over)
    system = _read_system(members, reader)
    turns, empty = _read_turns(members, reader)
    tools = _read_tools(members, left_over)
    choice = _read_tool_choice(members, left_over)
    config = read_config(_inner(members, "generationConfig"), left_over)
    request = Request(
        origin=ORIGIN,
        system=system,
        turns=turns,
        empty=tuple(empty),
        tools=tools,
        tool_choice=choice,
        extras={**left_over, **members.rest()},
    )
    return replace(request, **config)


def _inner(members: Members, name: str) -> Members | None:
    """An object's members, in the usual spelling."""
    held = members.mapping(name)
    return None if held is None else Members(camel_keys(held), members.path(name))


def _read_system(members: Members, reader: PartReader) -> tuple[Text, ...]:
    stated = members.any("systemInstruction")
    if isinstance(stated, str):
        return (Text(stated),) if stated else ()
    parts = stated.get("parts") if isinstance(stated, Mapping) else None
    texts = []
    for part in reader.read(parts if isinstance(parts, list) else (), is_model=False):
        if isinstance(part, Text):
            texts.append(part)
        else:
            reader.left_over["systemInstruction.parts"] = True
    return tuple(texts)


def _read_turns(members: Members, reader: PartReader) -> tuple[tuple[Turn, ...], list[str]]:
    """The turns, and the paths of those that say nothing.

    Neighbours of one role are joined first, as a thought may go on in the next.
    """
    spoken: list[tuple[bool, list[Part | ThoughtPiece]]] = []
    empty: list[str] = []
    for stated in members.objects("contents"):
        is_model = stated.text("role") == "model"
        parts = reader.read(stated.array("parts"), is_model=is_model)
        for name, value in stated.rest().items():
            reader.left_over[f"contents.{name}"] = value
        if not parts:
            empty.append(stated.path("parts"))
            parts = [EMPTY]
        if spoken and spoken[-1][0] == is_model:
            spoken[-1][1].extend(parts)
        else:
            spoken.append((is_model, parts))
    turns = merged(
        Turn("assistant" if is_model else "user", joined(parts)) for is_model, parts in spoken
    )
    return turns, empty


def _read_tools(members: Members, left_over: dict[str, Any]) -> tuple[Tool, ...]:
    tools = []
    for stated in members.objects("tools"):
        tool = Members(camel_keys(stated.rest()), stated.location)
        for function in tool.objects("functionDeclarations"):
            tools.append(_read_function(Members(camel_keys(function.rest()), function.location)))
        for name, value in tool.rest().items():
            left_over[f"tools.{name}"] = value
    return tuple(tools)


def _read_function(function: Members) -> Tool:
    name = function.text("name")
    if not name:
        raise InvalidRequest(f"{function.path('name')} is missing.", function.path("name"))
    parameters = function.mapping("parametersJsonSchema")
    own = function.mapping("parameters")
    if parameters is None and own is not None:
        parameters = read_schema(own, function.path("parameters"))
    description = function.text("description")
    return Tool(name, description=description, parameters=parameters, extras=function.rest())


def _read_tool_choice(members: Members, left_over: dict[str, Any]) -> ToolChoice | None:
    config = _inner(members, "toolConfig")
    if config is None:
        return None
    calling = _inner(config, "functionCallingConfig")
    for name, value in config.rest().items():
        left_over[f"toolConfig.{name}"] = value
    if calling is None:
        return None
    mode = (calling.text("mode") or "").upper()
    allowed = calling.array("allowedFunctionNames")
    if not all(isinstance(name, str) for name in allowed):
        location = calling.path("allowedFunctionNames")
        raise InvalidRequest(f"{location}: expected an array of strings.", location)
    for name, value in calling.rest().items():
        left_over[f"{_CALLING}.{name}"] = value
    if mode == "ANY":
        if len(allowed) == 1:
            return ToolChoice("named", allowed[0])
        return ToolChoice("required", allowed=tuple(allowed))
    if mode == "NONE":
        return ToolChoice("none")
    if mode not in ("", "MODE_UNSPECIFIED", "AUTO"):
        # Such as VALIDATED: a choice of the model's, checked more strictly.
        left_over[f"{_CALLING}.mode"] = mode
    elif mode != "AUTO" and not allowed:
        return None
    return ToolChoice("auto", allowed=tuple(allowed))
