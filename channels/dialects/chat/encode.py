"""Encode a canonical request as a chat-completions body, and report what it cannot express.

Requests of this protocol are not encoded: they are passed through. Those of its built-in tools,
which become responses, share what the provider has alike in both of its protocols.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from channels.dialects.chat.content import write_content
from channels.dialects.chat.generations import ChatGeneration, fit_sampling, generation_of
from channels.dialects.chat.members import (
    ORIGIN,
    PROVIDER,
    SchemaFormat,
    TranslatedChat,
    TranslatedFunction,
)
from channels.dialects.chat.strict_schemas import fits_strict
from channels.dialects.chat.thinking import members_of
from channels.dialects.same_fields import write_fields
from channels.families import MESSAGES
from channels.translation import identifiers, losses
from channels.translation.kept_tools import made_once
from channels.translation.model import (
    ClientProtocol,
    Effort,
    Format,
    Media,
    Part,
    Reasoning,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    is_system,
    level_of,
)
from channels.translation.schemas import one_object
from channels.translation.turns import unsayable


class MessageWriter:
    """Encodes system texts and turns of one request of the protocol `origin` as messages.

    Tool results become separate messages, right after the turn with the calls; the rest of the
    user's turn follows them. Images within a result follow as the user's, because a tool's message
    has only text.
    """

    __slots__ = ("_has_system_first", "_limits", "_messages", "_origin", "_report")

    def __init__(
        self,
        origin: ClientProtocol,
        report: losses.LossReport,
        limits: identifiers.IdentifierLimits,
        *,
        has_system_first: bool,
    ) -> None:
        self._has_system_first = has_system_first
        self._origin = origin
        self._report = report
        self._limits = limits
        self._messages: list[dict[str, object]] = []

    def __repr__(self) -> str:
        return f"<MessageWriter from {self._origin.protocol}, {len(self._messages)} messages>"

    def write(self, system: Sequence[Text], turns: Iterable[Turn]) -> list[dict[str, object]]:
        """Return all messages in order, with an empty one for a turn without any part here."""
        if system:
            self._write_spoken("system", system, is_instruction=True)
        for turn in turns:
            if turn.role == "user":
                self._write_user(turn)
            else:
                self._write_assistant(turn)
        self._complete_thoughts()
        return self._messages

    def _complete_thoughts(self) -> None:
        """Give each turn with calls a thought, if only an empty one, where any turn has one.

        The providers that require thoughts to come back require them of every such turn; a model
        does not think before each call, and clients and other providers' signatures lose some.
        """
        calling = [one for one in self._messages if "tool_calls" in one]
        if any("reasoning_content" in one for one in calling):
            for message in calling:
                message.setdefault("reasoning_content", "")

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
                losses.report_part(self._origin, part, self._report)
        spoken = [*follows, *rest]
        if self._has_system_first and any(map(is_system, spoken)):
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            self._write_spoken("user", spoken, name=turn.name)
            return
        for is_instruction, parts in groupby(spoken, is_system):
            self._write_spoken("system" if is_instruction else "user", list(parts), name=turn.name)

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
                losses.report_extras(self._origin, field, part.extras, self._report)
            parts = [Text(part.text) for part in parts if isinstance(part, Text)]
        content = write_content(parts, origin=self._origin, report=self._report)
        message: dict[str, object] = {"role": role, "content": "" if content is None else content}
        if name is not None:
            message["name"] = name
        self._messages.append(message)

    def _write_result(self, result: ToolResult) -> list[Media]:
        """Write one result; return its media, which follow all results."""
        losses.report_extras(self._origin, self._origin.parts, result.extras, self._report)
        if result.is_error:
            self._report.drop(losses.spelled(self._origin, "is_error"))
        parts = [part for part in result.parts if isinstance(part, Text)]
        content = write_content(parts, origin=self._origin, report=self._report)
        self._messages.append(
            {
                "role": "tool",
                "tool_call_id": self._limits.call_id(result.call_id),
                "content": "" if content is None else content,
            }
        )
        return [part for part in result.parts if isinstance(part, Media)]

    def _write_assistant(self, turn: Turn) -> None:
        members = self._spoken(turn)
        if calls := [self._call(part) for part in turn.parts if isinstance(part, ToolCall)]:
            members["tool_calls"] = calls
        is_summary = any(map(_signs_apart, turn.parts))
        thinking = [part for part in turn.parts if isinstance(part, Thinking)]
        members.update(members_of(one for one in thinking if self._may_come_back(one, is_summary)))
        for part in turn.parts:
            if isinstance(part, Media | ToolResult):
                losses.report_part(self._origin, part, self._report)
        if not members.keys() & {"tool_calls", "refusal"}:
            members.setdefault("content", "")
        if turn.name is not None:
            members["name"] = turn.name
        self._messages.append({"role": "assistant", **members})

    def _may_come_back(self, part: Thinking, is_summary: bool) -> bool:
        """Whether a thought is an upstream's own text, which some require with a tool result.

        The documented protocol has no member for thoughts; a signed one is another provider's, and
        so is an unsigned one that only shows what is signed elsewhere (`is_summary`).
        """
        is_own = part.signer is None and not is_summary
        if not is_own:
            self._report.drop(losses.spelled(self._origin, "thinking"))
        return is_own

    def _spoken(self, turn: Turn) -> dict[str, object]:
        """Return the members with text and refusals; several refusals are parts of the content."""
        members: dict[str, object] = {}
        texts = [part for part in turn.parts if isinstance(part, Text)]
        content = write_content(texts, origin=self._origin, report=self._report)
        if content is not None:
            members["content"] = content
        refusals = [part.text for part in turn.parts if isinstance(part, Refusal)]
        if len(refusals) == 1:
            members["refusal"] = refusals[0]
        elif refusals:
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            refused = [{"type": "refusal", "refusal": text} for text in refusals]
            members["content"] = [*(parts or ()), *refused]
        return members

    def _call(self, call: ToolCall) -> dict[str, object]:
        if call.signature is not None:
            self._report.drop(losses.spelled(self._origin, "call.signature"))
        losses.report_extras(self._origin, self._origin.parts, call.extras, self._report)
        return {
            "id": self._limits.call_id(call.id),
            "type": "function",
            "function": {"name": self._limits.name(call.name), "arguments": call.arguments},
        }


def _signs_apart(part: Part) -> bool:
    """Whether a part has the signature of thoughts whose text is in another part."""
    is_text = isinstance(part, Thinking) and bool(part.text)
    return isinstance(part, Thinking | ToolCall) and bool(part.signature) and not is_text


LIMITS = identifiers.IdentifierLimits(name_characters_max=64, id_characters_max=40)
_STOPS_MAX = 4
# A translation has one response, and `top_k` is not documented.
_LACKING = ("count", "top_k")
# Fields that the rest of the body decides.
_STATED_ELSEWHERE = frozenset(("max_tokens", "parallel_tools", *_LACKING))
_FORMAT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVICE_TIERS = {"auto": "auto", "standard_only": "default"}
# Members shared with the provider's other protocol, by its names.
_SHARED = {"service_tier": "service_tier", "text.verbosity": "verbosity"}


def tool_names(request: Request) -> Mapping[str, str]:
    """Return the tool names changed for this protocol, mapped to the client's own."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request,
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    report: losses.LossReport,
    max_tokens_param: str = "max_tokens",
    has_system_first: bool = False,
    cache_key: str | None = None,
) -> dict[str, object]:
    """Return the body for the upstream, with `max_tokens` under its `max_tokens_param`.

    A stream's usage is always requested (reference 2.5). `has_system_first` is for an upstream that
    takes instructions at the beginning alone; later ones become the user's words, which is
    reported. `cache_key`: None where the upstream takes no key for its cache; else the
    conversation's name beside the body. Raises InvalidRequest for a request without any message.
    """
    origin = request.origin
    writer = MessageWriter(origin, report, LIMITS, has_system_first=has_system_first)
    messages = writer.write(request.system, request.turns)
    if not messages:
        raise unsayable(origin)
    body: dict[str, object] = {"model": model, "messages": messages}
    if max_tokens is not None:
        body[max_tokens_param] = max_tokens
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    write_fields(request, TranslatedChat, body, without=_STATED_ELSEWHERE)
    losses.report_lacking(request, _LACKING, report)
    generation = generation_of(model)
    _write_stop(request, body, report, generation)
    _write_tools(request, body, report)
    if "parallel_tool_calls" in body and not generation.takes_parallel:
        # They do not call in parallel themselves.
        del body["parallel_tool_calls"]
    if request.format is not None:
        body["response_format"] = _format(request.format, request, report)
    effort = None
    if request.reasoning is not None:
        if request.reasoning.shows_thoughts is not None:
            report.drop(losses.spelled(origin, "reasoning.shows_thoughts"))
        effort = effort_word(request.reasoning, origin, report, model=model)
        if effort is not None:
            body["reasoning_effort"] = effort
    if "tools" in body:
        effort = _effort_with_tools(request, body, report, model=model, effort=effort)
    fit_sampling(request, body, report, model=model, effort=effort)
    _write_members(request, body, report, cache_key)
    return body


def _write_stop(
    request: Request,
    body: dict[str, object],
    report: losses.LossReport,
    generation: ChatGeneration,
) -> None:
    stop = request.stop[: _STOPS_MAX if generation.takes_stop else 0]
    if len(stop) < len(request.stop):
        report.drop(losses.spelled(request.origin, "stop"))
    if stop:
        body["stop"] = list(stop)


def _write_tools(request: Request, body: dict[str, object], report: losses.LossReport) -> None:
    choice = request.tool_choice
    if not request.tools:
        # The protocol refuses either without tools. Calling none is the default.
        if choice is not None and (choice.forces_call or choice.allowed):
            report.drop(losses.spelled(request.origin, "tool_choice"))
        return
    body["tools"] = made_once(request.tools, _tools, request.origin, report)
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


def _function_named(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": LIMITS.name(name)}}


def _tools(
    tools: Sequence[Tool], origin: ClientProtocol, report: losses.LossReport
) -> list[dict[str, object]]:
    return [_tool(tool, origin, report) for tool in tools]


def _tool(tool: Tool, origin: ClientProtocol, report: losses.LossReport) -> dict[str, object]:
    function: dict[str, object] = {"name": LIMITS.name(tool.name)}
    write_fields(tool, TranslatedFunction, function, without=("name", "parameters"))
    parameters = write_parameters(tool, origin, report)
    if parameters is not None:
        function["parameters"] = parameters
    if tool.is_strict is not None:
        function["strict"] = is_strict(tool, origin, report)
    losses.report_extras(origin, origin.tools, tool.extras, report)
    return {"type": "function", "function": function}


def write_parameters(
    tool: Tool, origin: ClientProtocol, report: losses.LossReport
) -> Mapping[str, object] | None:
    """Return the schema of a function's input: one object with properties, if only none.

    The provider's own clients write it as its protocols have it.
    """
    if tool.parameters is None or origin.provider == PROVIDER:
        return tool.parameters
    path = losses.spelled(origin, "tools.parameters")
    schema = one_object(tool.parameters, path, lambda keyword: report.drop(f"{path}.{keyword}"))
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    if schema.get("type") not in (None, "object", ["object"]):
        report.drop(path)
    return {"properties": {}, **schema, "type": "object"}


def is_strict(tool: Tool, origin: ClientProtocol, report: losses.LossReport) -> bool:
    """Whether to enforce a function's schema: not if the protocol would refuse it."""
    if tool.is_strict and origin is not ORIGIN and not fits_strict(tool.parameters):
        report.drop(losses.spelled(origin, "tools.is_strict"))
        return False
    return bool(tool.is_strict)


def _format(form: Format, request: Request, report: losses.LossReport) -> dict[str, object]:
    if form.kind == "text":
        return {"type": "text"}
    if form.kind == "json":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": schema_format(form, request, report)}


def schema_format(form: Format, request: Request, report: losses.LossReport) -> dict[str, object]:
    """Return a schema for the response, with its required name."""
    title = (form.schema or {}).get("title")
    name = form.name
    if name is None and isinstance(title, str) and _FORMAT_NAME.fullmatch(title):
        name = title
    schema: dict[str, object] = {"name": name or "response"}
    write_fields(form, SchemaFormat, schema, without=("name",))
    if form.is_strict and request.origin is not ORIGIN and not fits_strict(form.schema):
        # The protocol refuses to enforce a schema with optional properties.
        schema["strict"] = False
        report.drop(losses.spelled(request.origin, "format.is_strict"))
    return schema


def effort_word(
    reasoning: Reasoning, origin: ClientProtocol, report: losses.LossReport, *, model: str
) -> Effort | None:
    """Return the level of thinking, one that the model takes; a budget becomes the nearest one."""
    effort = _stated_effort(reasoning, origin, report)
    generation = generation_of(model)
    if effort is None or effort in generation.efforts:
        return effort
    fitted = generation.fitted(effort) if generation.efforts else None
    if not (fitted is None and effort == "none"):  # what does not think is switched off already
        report.drop(losses.spelled(origin, reasoning.asked))
    return fitted


def _effort_with_tools(
    request: Request,
    body: dict[str, object],
    report: losses.LossReport,
    *,
    model: str,
    effort: Effort | None,
) -> Effort | None:
    """Switch thinking off where the model takes no functions beside it; return the level."""
    generation = generation_of(model)
    is_on = effort != "none" if effort is not None else generation.thinks_unasked
    if generation.thinks_with_tools or not is_on:
        return effort
    if effort is not None and request.reasoning is not None:
        report.drop(losses.spelled(request.origin, request.reasoning.asked))
    body["reasoning_effort"] = "none"
    return "none"


def _stated_effort(
    reasoning: Reasoning, origin: ClientProtocol, report: losses.LossReport
) -> Effort | None:
    budget = reasoning.budget_tokens
    if reasoning.effort is not None:
        if budget is not None:
            report.drop(losses.spelled(origin, "reasoning.budget_tokens"))
        return reasoning.effort
    if reasoning.is_enabled is False or budget == 0:
        return "none"
    if budget is not None and budget > 0:
        report.drop(losses.spelled(origin, "reasoning.budget_tokens"))
        return level_of(budget)
    if reasoning.is_enabled is not None or budget is not None:
        # The protocol has no level for adaptive thinking.
        report.drop(losses.spelled(origin, "reasoning.is_enabled"))
    return None


def _write_members(
    request: Request, body: dict[str, object], report: losses.LossReport, cache_key: str | None
) -> None:
    """Write members of the client's protocol that this one shares."""
    carried: set[str] = set()
    if key := identifiers.cache_key_of(request, report, cache_key):
        body[identifiers.CACHE_KEY] = key
        carried.add(identifiers.CACHE_KEY)
    if request.origin.provider == PROVIDER:
        for name, own in _SHARED.items():
            if (value := request.extras.get(name)) is not None:
                body[own] = value
                carried.add(name)
        identifier = request.extras.get(identifiers.USER_EXTRA)
        if "user" not in body and isinstance(identifier, str):
            body["user"] = identifier
            carried.add(identifiers.USER_EXTRA)
    else:
        carried |= write_tier(request, body)
    losses.report_members(request, report, carried=carried)


def write_tier(request: Request, body: dict[str, object]) -> set[str]:
    """Write the service tier requested by a client of messages; return the members carried."""
    tier = request.extras.get("service_tier")
    word = _SERVICE_TIERS.get(tier) if isinstance(tier, str) else None
    if word is None or request.origin.protocol != MESSAGES.protocol:
        return set()
    body["service_tier"] = word
    return {"service_tier"}
