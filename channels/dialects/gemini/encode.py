"""Encode a canonical request as a gemini body, and tell what it cannot say.

Contents are `encode_turns.py`'s part, the generation config is `encode_config.py`'s. A request that
came as gemini goes out saying the same, its own members with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from channels.dialects.gemini.encode_config import write_config
from channels.dialects.gemini.encode_schema import write_schema
from channels.dialects.gemini.encode_turns import ContentWriter
from channels.dialects.gemini.names import LIMITS
from channels.dialects.gemini.origin import ORIGIN
from channels.dialects.gemini.schema_pieces import CopyRoom
from channels.translation.field_names import spelled
from channels.translation.losses import LossReport
from channels.translation.model import Request, Tool, ToolChoice
from channels.translation.turns import refuse_empty
from channels.translation.unsupported import report_extras, report_members

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}
# Members that stand within others or have been written by their parts.
_NOT_RESTORED = ("contents.", "systemInstruction.")


def tool_names(request: Request) -> Mapping[str, str]:
    """The tool names that are changed on this wire, to the client's own."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request, *, model: str, stream: bool, max_tokens: int | None, report: LossReport
) -> dict[str, Any]:
    """The body for the upstream. Model and streaming are in the path. Raises InvalidRequest.

    The model's name still tells how much thinking can be asked for.
    """
    if request.origin is not ORIGIN:
        refuse_empty(request)
    writer = ContentWriter(request.origin, report)
    instruction, contents = writer.write(request.system, request.turns)
    body: dict[str, Any] = {"contents": contents}
    if instruction is not None:
        body["systemInstruction"] = instruction
    _write_tools(request, body, report)
    config = write_config(request, model=model, max_tokens=max_tokens, report=report)
    if config:
        body["generationConfig"] = config
    carried = _restore(request, body) if request.origin is ORIGIN else ()
    carried = (*carried, *_write_modalities(request, body))
    if request.user is not None:
        report.drop(spelled(request.origin, "user"))
    report_members(request, report, carried=carried)
    return body


def _write_tools(request: Request, body: dict[str, Any], report: LossReport) -> None:
    choice, tools = request.tool_choice, request.tools
    is_own = request.origin is ORIGIN
    if request.parallel_tools is False and tools:
        report.drop(spelled(request.origin, "parallel_tools"))
    if choice is not None and choice.mode == "auto" and choice.allowed and not is_own:
        # The protocol narrows the choice only where a call is a must.
        narrowed = frozenset(choice.allowed)
        tools = tuple(tool for tool in tools if tool.name in narrowed)
        choice = ToolChoice("auto")
    if tools:
        room = CopyRoom()
        body["tools"] = [
            {"functionDeclarations": [_tool(tool, request, report, room) for tool in tools]}
        ]
    elif choice is not None and not is_own:
        # Refused without functions. Not to call any is what happens anyway.
        if choice.mode in ("required", "named") or request.tools:
            report.drop(spelled(request.origin, "tool_choice"))
        return
    if choice is None:
        return
    calling: dict[str, Any] = {"mode": _MODES[choice.mode]}
    allowed = (choice.name or "",) if choice.mode == "named" else choice.allowed
    if allowed:
        calling["allowedFunctionNames"] = [LIMITS.name(name) for name in allowed]
    body["toolConfig"] = {"functionCallingConfig": calling}


def _tool(tool: Tool, request: Request, report: LossReport, room: CopyRoom) -> dict[str, Any]:
    origin = request.origin
    written: dict[str, Any] = {"name": LIMITS.name(tool.name)}
    if tool.description is not None:
        written["description"] = tool.description
    if origin is ORIGIN:
        if tool.parameters is not None:
            written["parametersJsonSchema"] = tool.parameters
        return {**written, **tool.extras}
    if tool.parameters is not None:
        stated = {"type": "object", **tool.parameters}
        schema = write_schema(stated, spelled(origin, "tools.parameters"), report, room)
        # An object without any properties is refused; a function without parameters is not.
        if schema.get("type") != "object" or schema.get("properties"):
            written["parameters"] = schema
    if tool.is_strict:
        report.drop(spelled(origin, "tools.is_strict"))
    report_extras(origin, "tools.", tool.extras, report)
    return written


def _write_modalities(request: Request, body: dict[str, Any]) -> Collection[str]:
    """What the response may be made of: chat clients ask image models for images this way."""
    name = request.origin.modalities
    wanted = None if name is None else request.extras.get(name)
    if name is None or not isinstance(wanted, list) or "image" not in wanted:
        return ()
    if not all(name in ("text", "image") for name in wanted):
        return ()
    body.setdefault("generationConfig", {})["responseModalities"] = [
        name.upper() for name in wanted
    ]
    return (name,)


def _restore(request: Request, body: dict[str, Any]) -> Collection[str]:
    """Put back the members that only this protocol knows. Returns which there were."""
    for name, value in request.extras.items():
        if name.startswith("tools."):
            body.setdefault("tools", []).append({name.removeprefix("tools."): value})
        elif not name.startswith(_NOT_RESTORED):
            target = body
            *path, last = name.split(".")
            for step in path:
                target = target.setdefault(step, {})
            target[last] = value
    return tuple(request.extras)
