"""Encode the canonical request as a responses one, for calls with built-in tools.

System texts at the beginning become `instructions`, which upstreams demand; the rest is
`encode_items.py`. Nothing is to be kept at the upstream: `store` is false (spec: Responses
protocol). Members whose names differ, or whose defaults do, are the business of this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.responses.encode_items import ItemWriter
from channels.dialects.validate import unversioned
from channels.families import CHAT
from channels.registry import BUILTIN_TOOLS
from channels.translation.field_names import spelled
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
from channels.translation.model import Format, Request, Tool, ToolChoice
from channels.translation.unsupported import report_extras, report_members

LIMITS = IdentifierLimits(name_characters_max=64, id_characters_max=64)
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
# Members of chat-completions that are here under the same name.
_SHARED = (
    "metadata",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
)
_TOOLS = "tools."  # before a tool's type, among a chat request's extras
_CHOICE = "tool_choice"
_ALLOWED = "tool_choice.allowed_tools.tools"
_OBFUSCATION = "stream_options.include_obfuscation"


def tool_names(request: Request) -> Mapping[str, str]:
    """The tool names that are changed on this wire, to the client's own."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request, *, model: str, stream: bool, max_tokens: int | None, report: LossReport
) -> dict[str, Any]:
    """The body for the upstream."""
    items = ItemWriter(request.origin, report, LIMITS)
    instructions, written = items.write(request.system, request.turns)
    body: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "input": written,
        "store": False,
    }
    if max_tokens is not None:
        body["max_output_tokens"] = max_tokens
    if stream:
        body["stream"] = True
    for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty", "user"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    for name in ("stop", "seed", "top_k"):
        if getattr(request, name) not in (None, ()):
            report.drop(spelled(request.origin, name))
    if request.count is not None and request.count > 1:
        report.drop(spelled(request.origin, "count"))
    carried = _write_tools(request, body, report)
    if request.reasoning is not None and request.reasoning.effort is not None:
        body["reasoning"] = {"effort": request.reasoning.effort}
    if request.format is not None:
        body["text"] = {"format": _format(request.format)}
    if request.origin.protocol == CHAT.protocol:
        carried |= _write_shared(request, body)
    report_members(request, report, carried=carried)
    return body


def _write_tools(request: Request, body: dict[str, Any], report: LossReport) -> set[str]:
    """Functions, then the built-in tools as the client described them; the extras that are said."""
    carried = set()
    tools = [_function(tool, request, report) for tool in request.tools]
    for name, described in _builtin(request).items():
        tools += described
        carried.add(name)
    if tools:
        body["tools"] = tools
        if request.parallel_tools is not None:
            body["parallel_tool_calls"] = request.parallel_tools
    choice = request.tool_choice
    if choice is not None:
        body["tool_choice"] = _choice(choice, request.extras.get(_ALLOWED, []))
        carried.add(_ALLOWED)
    elif (kind := _kind_chosen(request)) is not None:
        body["tool_choice"] = {"type": kind}
        carried.add(_CHOICE)
    return carried


def _builtin(request: Request) -> dict[str, list[dict[str, Any]]]:
    """The built-in tools of a chat request, by their names among its extras."""
    if request.origin.protocol != CHAT.protocol:
        return {}
    return {
        name: tools
        for name, tools in request.extras.items()
        if name.startswith(_TOOLS) and unversioned(name.removeprefix(_TOOLS)) in BUILTIN_TOOLS
    }


def _kind_chosen(request: Request) -> str | None:
    """The one built-in tool that must be used, as a client may ask in the words of responses."""
    choice = request.extras.get(_CHOICE)
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    return kind if isinstance(kind, str) and _TOOLS + kind in _builtin(request) else None


def _choice(choice: ToolChoice, builtin: list[dict[str, Any]]) -> str | dict[str, Any]:
    if choice.mode == "named":
        return _named(choice.name or "")
    if choice.allowed or builtin:
        tools = [*map(_named, choice.allowed), *builtin]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return choice.mode


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "name": LIMITS.name(name)}


def _function(tool: Tool, request: Request, report: LossReport) -> dict[str, Any]:
    report_extras(request.origin, "tools.function.", tool.extras, report)
    function = {
        **_named(tool.name),
        "parameters": _NO_PARAMETERS if tool.parameters is None else tool.parameters,
        # Left out it would be true here, and false where the client comes from.
        "strict": bool(tool.is_strict),
    }
    if tool.description is not None:
        function["description"] = tool.description
    return function


def _format(form: Format) -> dict[str, Any]:
    if form.kind != "schema":
        return {"type": "text" if form.kind == "text" else "json_object"}
    schema: dict[str, Any] = {
        "type": "json_schema",
        "name": form.name or "response",
        "schema": {} if form.schema is None else form.schema,
    }
    if form.is_strict is not None:
        schema["strict"] = form.is_strict
    if form.description is not None:
        schema["description"] = form.description
    return schema


def _write_shared(request: Request, body: dict[str, Any]) -> set[str]:
    """Members that only the two protocols of this provider know."""
    extras = request.extras
    carried = {name for name in _SHARED if extras.get(name) is not None}
    body.update((name, extras[name]) for name in sorted(carried))
    if extras.get("verbosity") is not None:
        body.setdefault("text", {})["verbosity"] = extras["verbosity"]
        carried.add("verbosity")
    if extras.get(_OBFUSCATION) is not None:
        body["stream_options"] = {"include_obfuscation": extras[_OBFUSCATION]}
        carried.add(_OBFUSCATION)
    return carried
