"""Encode a canonical request as a messages body, and tell what it cannot say.

The turns are `encode_turns.py`'s part, thinking and sampling, which exclude each other, are
`encode_thinking.py`'s. A request that came as messages goes out as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.messages.encode_thinking import write_thinking
from channels.dialects.messages.encode_turns import TurnWriter
from channels.dialects.messages.origin import ORIGIN
from channels.families import CHAT
from channels.translation.field_names import spelled
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
from channels.translation.model import Format, Request, Tool
from channels.translation.turns import refuse_empty
from channels.translation.unsupported import report_extras, report_members

LIMITS = IdentifierLimits(name_characters_max=128, id_characters_max=64)
_SERVICE_TIERS = {"auto": "auto", "default": "standard_only"}
_UNSAYABLE = ("seed", "frequency_penalty", "presence_penalty")


def tool_names(request: Request) -> Mapping[str, str]:
    """The tool names that are changed on this wire, to the client's own."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request,
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    report: LossReport,
    has_system_turns: bool = False,
) -> dict[str, Any]:
    """The body for the upstream, which demands a maximum. Raises InvalidRequest.

    `has_system_turns` is for an upstream that takes instructions in the middle of a conversation
    under a role of their own; elsewhere they become the user's words, which is reported.
    """
    assert max_tokens is not None, "this protocol has no call without a maximum"
    if request.origin is not ORIGIN:
        refuse_empty(request)
    writer = TurnWriter(request.origin, report, LIMITS, has_system_turns=has_system_turns)
    system, messages = writer.write(request.system, request.turns)
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": messages}
    if system is not None:
        body["system"] = system
    if stream:
        body["stream"] = True
    is_forced = _write_tools(request, body, report)
    write_thinking(request, body, report, max_tokens=max_tokens, is_forced=is_forced)
    _write_stop(request, body, report)
    if request.format is not None:
        _write_format(request.format, request, body, report)
    for name in _UNSAYABLE:
        if getattr(request, name):  # a penalty of 0 is none
            report.drop(spelled(request.origin, name))
    if request.seed == 0:
        report.drop(spelled(request.origin, "seed"))
    if request.count is not None and request.count > 1:
        report.drop(spelled(request.origin, "count"))
    _write_members(request, body, report)
    return body


def _write_tools(request: Request, body: dict[str, Any], report: LossReport) -> bool:
    """Write tools and their choice. Returns whether the model has to call one."""
    choice, parallel = request.tool_choice, request.parallel_tools
    tools = request.tools
    if choice is not None and choice.allowed:
        allowed = frozenset(choice.allowed)
        tools = tuple(tool for tool in tools if tool.name in allowed)
    if not tools:
        # The protocol refuses a choice without tools. Not to call any is what happens anyway.
        if choice is not None and (choice.mode in ("required", "named") or choice.allowed):
            report.drop(spelled(request.origin, "tool_choice"))
        return False
    body["tools"] = [_tool(tool, request, report) for tool in tools]
    stated: dict[str, Any] = {}
    if choice is None:
        if parallel is False:
            stated = {"type": "auto"}
    elif choice.mode == "named":
        stated = {"type": "tool", "name": LIMITS.name(choice.name or "")}
    else:
        stated = {"type": "any" if choice.mode == "required" else choice.mode}
    if stated:
        if parallel is not None and stated["type"] != "none":
            stated["disable_parallel_tool_use"] = not parallel
        body["tool_choice"] = stated
    return choice is not None and choice.mode in ("required", "named")


def _tool(tool: Tool, request: Request, report: LossReport) -> dict[str, Any]:
    written: dict[str, Any] = {"name": LIMITS.name(tool.name)}
    if tool.description is not None:
        written["description"] = tool.description
    written["input_schema"] = _schema(tool, request, report)
    if tool.is_strict is not None:
        written["strict"] = tool.is_strict
    if request.origin is ORIGIN:
        return {**written, **tool.extras}
    if (mark := tool.extras.get("cache_control")) is not None:
        written["cache_control"] = mark
    rest = {name: value for name, value in tool.extras.items() if name != "cache_control"}
    report_extras(request.origin, request.origin.tools, rest, report)
    return written


def _schema(tool: Tool, request: Request, report: LossReport) -> Mapping[str, Any]:
    """The schema of a tool's input, which has to be an object's."""
    if tool.parameters is None:
        return {"type": "object", "properties": {}}
    kind = tool.parameters.get("type")
    if kind == "object" or request.origin is ORIGIN:
        return tool.parameters
    if kind is not None and kind != ["object"]:
        report.drop(spelled(request.origin, "tools.parameters"))
    return {**tool.parameters, "type": "object"}


def _write_stop(request: Request, body: dict[str, Any], report: LossReport) -> None:
    stop = request.stop
    if request.origin is not ORIGIN:
        stop = tuple(text for text in stop if text.strip())  # the protocol refuses blank ones
        if len(stop) < len(request.stop):
            report.drop(spelled(request.origin, "stop"))
    if stop:
        body["stop_sequences"] = list(stop)


def _write_format(form: Format, request: Request, body: dict[str, Any], report: LossReport) -> None:
    """A schema is always enforced here; JSON without a schema cannot be asked for."""
    if form.kind == "text":
        return
    if form.schema is None:
        report.drop(spelled(request.origin, "format"))
        return
    schema = dict(form.schema)
    for name, field, value in (
        ("title", "format.name", form.name),
        ("description", "format.description", form.description),
    ):
        if value is not None and schema.setdefault(name, value) != value:
            report.drop(spelled(request.origin, field))
    if form.is_strict is False and request.origin is not ORIGIN:
        report.drop(spelled(request.origin, "format.is_strict"))
    config = body.setdefault("output_config", {})
    config["format"] = {"type": "json_schema", "schema": schema}


def _write_members(request: Request, body: dict[str, Any], report: LossReport) -> None:
    """Who asks, and members that only the client's protocol knows: carried where both know them."""
    carried = set()
    user = request.user
    if request.origin is ORIGIN:
        for name, value in request.extras.items():
            if "." not in name and name not in body:
                body[name] = value
                carried.add(name)
    elif request.origin.protocol == CHAT.protocol:
        tier = request.extras.get("service_tier")
        if isinstance(tier, str) and tier in _SERVICE_TIERS:
            body["service_tier"] = _SERVICE_TIERS[tier]
            carried.add("service_tier")
        identifier = request.extras.get("safety_identifier")
        if user is None and isinstance(identifier, str):
            user = identifier
            carried.add("safety_identifier")
    if user is not None:
        body["metadata"] = {"user_id": user}
    report_members(request, report, carried=carried)
