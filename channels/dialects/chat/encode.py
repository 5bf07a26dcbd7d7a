"""Encode a canonical request as a chat-completions body, and tell what it cannot say.

The messages are `encode_messages.py`'s part. A request that came as chat-completions goes out as it
came; the rules below that drop or change something are for the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from channels.dialects.chat.encode_messages import MessageWriter
from channels.dialects.chat.origin import ORIGIN
from channels.dialects.chat.strict_schema import fits_strict
from channels.families import MESSAGES
from channels.translation.field_names import spelled
from channels.translation.identifiers import IdentifierLimits
from channels.translation.losses import LossReport
from channels.translation.model import Format, Reasoning, Request, Tool
from channels.translation.turns import unsayable
from channels.translation.unsupported import report_extras, report_members

LIMITS = IdentifierLimits(name_characters_max=64, id_characters_max=40)
_STOPS_MAX = 4
_FORMAT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Thinking budgets as words: the largest budget of each.
_LOW_TOKENS = 4096
_MEDIUM_TOKENS = 16384
_SERVICE_TIERS = {"auto": "auto", "standard_only": "default"}


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
    max_tokens_param: str = "max_tokens",
) -> dict[str, Any]:
    """The body for the upstream. `max_tokens` goes under the channel's `max_tokens_param`.

    A stream is always asked for its usage (contract §5). Raises InvalidRequest where there is
    nothing to answer.
    """
    origin = request.origin
    messages = MessageWriter(origin, report, LIMITS).write(request.system, request.turns)
    if not messages and origin is not ORIGIN:
        raise unsayable(origin)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if max_tokens is not None:
        body[max_tokens_param] = max_tokens
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    for name in ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "user"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    _write_count_and_top_k(request, body, report)
    _write_stop(request, body, report)
    _write_tools(request, body, report)
    if request.format is not None:
        body["response_format"] = _format(request.format, request, report)
    if request.reasoning is not None:
        effort = _effort(request.reasoning, request, report)
        if effort is not None:
            body["reasoning_effort"] = effort
    _write_members(request, body, report)
    return body


def _write_count_and_top_k(request: Request, body: dict[str, Any], report: LossReport) -> None:
    if request.origin is ORIGIN:
        if request.count is not None:
            body["n"] = request.count
        if request.top_k is not None:
            body["top_k"] = request.top_k
        return
    if request.count is not None and request.count > 1:
        report.drop(spelled(request.origin, "count"))  # one response is all we translate
    if request.top_k is not None:
        report.drop(spelled(request.origin, "top_k"))


def _write_stop(request: Request, body: dict[str, Any], report: LossReport) -> None:
    stop = request.stop
    if not stop:
        return
    if request.origin is not ORIGIN and len(stop) > _STOPS_MAX:
        report.drop(spelled(request.origin, "stop"))
        stop = stop[:_STOPS_MAX]
    body["stop"] = list(stop)


def _write_tools(request: Request, body: dict[str, Any], report: LossReport) -> None:
    choice = request.tool_choice
    if not request.tools:
        # The protocol refuses either without tools. Not to call any is what happens anyway.
        if choice is not None and (choice.mode in ("required", "named") or choice.allowed):
            report.drop(spelled(request.origin, "tool_choice"))
        return
    body["tools"] = [_tool(tool, request, report) for tool in request.tools]
    if request.parallel_tools is not None:
        body["parallel_tool_calls"] = request.parallel_tools
    if choice is None:
        return
    if choice.mode == "named":
        body["tool_choice"] = _function_named(choice.name or "")
    elif choice.allowed:
        tools = [_function_named(name) for name in choice.allowed]
        allowed = {"mode": choice.mode, "tools": tools}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    else:
        body["tool_choice"] = choice.mode


def _function_named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": LIMITS.name(name)}}


def _tool(tool: Tool, request: Request, report: LossReport) -> dict[str, Any]:
    function: dict[str, Any] = {"name": LIMITS.name(tool.name)}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    if tool.is_strict is not None:
        function["strict"] = tool.is_strict
        if tool.is_strict and request.origin is not ORIGIN and not fits_strict(tool.parameters):
            function["strict"] = False
            report.drop(spelled(request.origin, "tools.is_strict"))
    if request.origin is ORIGIN:
        return {"type": "function", "function": function, **tool.extras}
    report_extras(request.origin, request.origin.tools, tool.extras, report)
    return {"type": "function", "function": function}


def _format(form: Format, request: Request, report: LossReport) -> dict[str, Any]:
    if form.kind == "text":
        return {"type": "text"}
    if form.kind == "json":
        return {"type": "json_object"}
    title = (form.schema or {}).get("title")
    name = form.name
    if name is None and isinstance(title, str) and _FORMAT_NAME.fullmatch(title):
        name = title
    schema: dict[str, Any] = {"name": name or "response"}
    if form.description is not None:
        schema["description"] = form.description
    if form.schema is not None:
        schema["schema"] = form.schema
    if form.is_strict is not None:
        schema["strict"] = form.is_strict
        if form.is_strict and request.origin is not ORIGIN and not fits_strict(form.schema):
            # Optional properties: this protocol refuses them in a schema it has to enforce.
            schema["strict"] = False
            report.drop(spelled(request.origin, "format.is_strict"))
    return {"type": "json_schema", "json_schema": schema}


def _effort(reasoning: Reasoning, request: Request, report: LossReport) -> str | None:
    """The word for how much to think; a number of tokens becomes the nearest word."""
    origin = request.origin
    if reasoning.shows_thoughts is not None and origin is not ORIGIN:
        report.drop(spelled(origin, "reasoning.shows_thoughts"))
    budget = reasoning.budget_tokens
    if reasoning.effort is not None:
        if budget is not None:
            report.drop(spelled(origin, "reasoning.budget_tokens"))
        return reasoning.effort
    if reasoning.is_enabled is False or budget == 0:
        return "none"
    if budget is not None and budget > 0:
        report.drop(spelled(origin, "reasoning.budget_tokens"))
        if budget <= _LOW_TOKENS:
            return "low"
        return "medium" if budget <= _MEDIUM_TOKENS else "high"
    if reasoning.is_enabled is not None or budget is not None:
        # Thinking as the model sees fit: there is no word for it here.
        report.drop(spelled(origin, "reasoning.is_enabled"))
    return None


def _write_members(request: Request, body: dict[str, Any], report: LossReport) -> None:
    """Members that only the client's protocol knows: carried where this one knows them too."""
    carried = set()
    if request.origin is ORIGIN:
        for name, value in request.extras.items():
            if "." not in name and name not in body:
                body[name] = value
                carried.add(name)
    elif request.origin.protocol == MESSAGES.protocol:
        tier = request.extras.get("service_tier")
        if isinstance(tier, str) and tier in _SERVICE_TIERS:
            body["service_tier"] = _SERVICE_TIERS[tier]
            carried.add("service_tier")
    report_members(request, report, carried=carried)
