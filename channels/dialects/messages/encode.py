"""Encode another protocol's canonical request as a messages body, and report its losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from channels.dialects.messages.cache_marks import BREAKPOINT, bound_marks, mark_cache, split_mark
from channels.dialects.messages.enforced_schemas import StrictTools, enforced
from channels.dialects.messages.generations import generation_of
from channels.dialects.messages.media import write_block
from channels.dialects.messages.members import TranslatedTool
from channels.dialects.messages.thinking import write_thinking
from channels.dialects.same_fields import write_fields
from channels.families import MESSAGES
from channels.json.written import Written
from channels.translation import losses
from channels.translation.call_arguments import object_in, raw_arguments
from channels.translation.identifiers import USER_EXTRA, CallIds, IdentifierLimits
from channels.translation.kept_tools import made_once
from channels.translation.model import (
    ClientProtocol,
    Format,
    Media,
    Part,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
    is_system,
    must_be_written,
)
from channels.translation.schemas import one_object
from channels.translation.turns import CONTINUING, refuse_empty, unsayable

# The user's turn before a conversation that begins with the model's.
_OPENING = "."


class TurnWriter:
    """Encodes system texts and turns of one request of the protocol `origin`.

    Roles alternate and the user begins, tool results are first in their turn, no text is blank,
    thinking is sent only with this provider's proof. `has_marks`: a block is marked for the cache.
    """

    __slots__ = (
        "_has_system_turns",
        "_ids",
        "_limits",
        "_origin",
        "_report",
        "_takes_breakpoints",
        "has_marks",
    )

    def __init__(
        self,
        origin: ClientProtocol,
        report: losses.LossReport,
        limits: IdentifierLimits,
        *,
        has_system_turns: bool,
        takes_breakpoints: bool,
    ) -> None:
        self._origin = origin
        self._report = report
        self._limits = limits
        self._has_system_turns = has_system_turns
        self._takes_breakpoints = takes_breakpoints
        self._ids = CallIds(limits)
        self.has_marks = False

    def __repr__(self) -> str:
        return f"<TurnWriter from {self._origin.protocol}>"

    def write(
        self, system: Sequence[Text], turns: Iterable[Turn]
    ) -> tuple[str | list[Written] | None, list[Written]]:
        """Return the `system` member, None without one, and the messages.

        Raises InvalidRequest for a turn that cannot be expressed, and without any turn.
        """
        messages = self._write_turns(turns)
        blocks = self._blocks(system, role="user")
        if not messages:
            if not blocks:
                raise unsayable(self._origin)
            # The protocol has no conversation of instructions alone: they become the user's.
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            return None, [{"role": "user", "content": _shortest(blocks)}]
        self._open(messages)
        for message in messages:
            message["content"] = _shortest(message["content"])
        return _shortest(blocks) if blocks else None, messages

    def _write_turns(self, turns: Iterable[Turn]) -> list[Written]:
        messages: list[Written] = []
        for turn in turns:
            is_empty = True
            for role, blocks in self._write_turn(turn):
                if not blocks:
                    continue
                is_empty = False
                if messages and messages[-1]["role"] == role:
                    messages[-1]["content"].extend(blocks)
                else:
                    messages.append({"role": role, "content": blocks})
            if is_empty and must_be_written(turn, self._origin):
                raise unsayable(self._origin)
        return messages

    def _open(self, messages: list[Written]) -> None:
        """Repair a beginning and an end that the protocol refuses."""
        if messages[0]["role"] == "assistant":
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            opening = [{"type": "text", "text": _OPENING}]
            messages.insert(0, {"role": "user", "content": opening})
        last = messages[-1]
        if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            block = last["content"][-1]
            last["content"][-1] = {**block, "text": block["text"].rstrip()}

    def _write_turn(self, turn: Turn) -> list[tuple[str, list[Written]]]:
        """Return the messages of a turn: one, unless instructions are within it."""
        if turn.name is not None:
            self._report.drop(losses.spelled(self._origin, "turn.name"))
        if turn.role == "assistant":
            self._ids.begin_turn()
            return [("assistant", self._blocks(turn.parts, role="assistant"))]
        instructions = [part for part in turn.parts if isinstance(part, Text) and part.is_system]
        if not instructions:
            return [("user", self._blocks(turn.parts, role="user"))]
        written = []
        for is_instruction, group in groupby(turn.parts, is_system):
            role = "user"
            if is_instruction and self._has_system_turns:
                role = "system"
            elif is_instruction:
                self._report.drop(losses.spelled(self._origin, "turn.role"))
            written.append((role, self._blocks(list(group), role="user")))
        return written

    def _blocks(self, parts: Sequence[Part], *, role: str) -> list[Written]:
        blocks = []
        for part in parts:
            block = self._text(part) if isinstance(part, Text) else self._block(part, role=role)
            if block is not None:
                blocks.append(block)
        return blocks

    def _block(
        self, part: Media | Thinking | ToolCall | ToolResult | Refusal, *, role: str
    ) -> Written | None:
        if isinstance(part, ToolCall):
            return self._call(part)
        if isinstance(part, ToolResult):
            return self._result(part)
        if isinstance(part, Thinking):
            return self._thinking(part)
        if isinstance(part, Refusal):
            return self._text(Text(part.text))
        block = write_block(part) if role == "user" else None
        if block is None:
            losses.report_media(self._origin, part, self._report)
            return None
        self._report_media(part, block)
        return {**block, **self._extras(part.extras)}

    def _report_media(self, media: Media, block: Mapping[str, object]) -> None:
        if media.detail not in (None, "auto"):
            self._report.drop(losses.spelled(self._origin, "media.detail"))
        if media.name is not None and "title" not in block:
            self._report.drop(losses.spelled(self._origin, "media.name"))

    def _text(self, text: Text) -> Written | None:
        is_blank = not text.text or text.text.isspace()
        if not text.extras:
            return None if is_blank else {"type": "text", "text": text.text}
        extras = self._extras(text.extras)
        if is_blank:
            if "cache_control" in extras:
                name = "cache_control" if "cache_control" in text.extras else BREAKPOINT
                self._report.drop(self._origin.parts + name)
            return None
        return {"type": "text", "text": text.text, **extras}

    def _call(self, call: ToolCall) -> Written:
        arguments = object_in(call.arguments)
        if arguments is None:
            self._report.drop(losses.spelled(self._origin, "call.arguments"))
            arguments = raw_arguments(call.arguments)
        if call.signature is not None:
            self._report.drop(losses.spelled(self._origin, "call.signature"))
        return {
            "type": "tool_use",
            "id": self._ids.of_call(call.id),
            "name": self._limits.name(call.name),
            "input": arguments,
            **self._extras(call.extras),
        }

    def _result(self, result: ToolResult) -> Written:
        block: Written = {
            "type": "tool_result",
            "tool_use_id": self._ids.of_result(result.call_id),
        }
        blocks = self._blocks(result.parts, role="user")
        if blocks:
            block["content"] = _shortest(blocks)
        if result.is_error:
            block["is_error"] = True
        return {**block, **self._extras(result.extras)}

    def _thinking(self, part: Thinking) -> Written | None:
        """Encode thinking that this provider can check."""
        if part.signer == MESSAGES.protocol and part.redacted:
            return {"type": "redacted_thinking", "data": part.redacted}
        if part.signer != MESSAGES.protocol or not part.signature:
            self._report.drop(losses.spelled(self._origin, "thinking"))
            return None
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}

    def _extras(self, extras: Mapping[str, object]) -> Mapping[str, object]:
        """Return the members of a block: cache marks, of whichever protocol."""
        if not extras:
            return extras
        mark, rest = split_mark(extras, takes_breakpoint=self._takes_breakpoints)
        losses.report_extras(self._origin, self._origin.parts, rest, self._report)
        if mark is None:
            return {}
        self.has_marks = True
        return {"cache_control": mark}


def _shortest(blocks: list[Written]) -> str | list[Written]:
    """Return a single plain text as a string, else the blocks."""
    if len(blocks) == 1 and len(only := blocks[0]) == len(("type", "text")) and "text" in only:
        text: str = only["text"]
        return text
    return blocks


LIMITS = IdentifierLimits(name_characters_max=128, id_characters_max=64)
_SERVICE_TIERS = {"auto": "auto", "default": "standard_only"}
_HOSTED_TIERS = {**_SERVICE_TIERS, "priority": "priority", "flex": "flex"}
_NO_THINKING = {"type": "disabled"}
_THOUGHTS = ("thinking", "redacted_thinking")
_MODES = {"auto": "auto", "none": "none", "required": "any", "named": "tool"}
# Fields for which this protocol has no member.
_LACKING = ("seed", "frequency_penalty", "presence_penalty", "count")


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
    has_system_turns: bool = False,
    is_session: bool | None = None,
    is_repeated: bool = False,
    takes_tiers: bool = False,
) -> Written:
    """Return the body for the upstream, which requires a maximum. Raises InvalidRequest.

    `has_system_turns` is for an upstream that takes instructions in the middle of a conversation
    under a role of their own; elsewhere they become the user's words, which is reported.
    `is_session`: None where nothing may be marked for the prompt's cache; else whether the client
    names its conversation beside the body. `is_repeated`: tools and instructions were sent minutes
    ago. `takes_tiers`: the upstream's host has service tiers.
    """
    assert max_tokens is not None, "this protocol has no call without a maximum"
    refuse_empty(request)
    writer = TurnWriter(
        request.origin,
        report,
        LIMITS,
        has_system_turns=has_system_turns,
        takes_breakpoints=is_session is not None,
    )
    system, messages = writer.write(request.system, request.turns)
    body: Written = {"model": model, "max_tokens": max_tokens, "messages": messages}
    if system is not None:
        body["system"] = system
    if stream:
        body["stream"] = True
    is_forced = _write_tools(request, body, report)
    write_thinking(request, body, report, model=model, max_tokens=max_tokens, is_forced=is_forced)
    thinks = body.get("thinking", _NO_THINKING)["type"] != "disabled"
    generation = generation_of(model)
    if not thinks and not generation.is_adaptive and _without_thoughts(messages):
        report.drop(losses.spelled(request.origin, "thinking"))
    if messages[-1]["role"] == "assistant" and (thinks or not generation.takes_prefill):
        report.drop(losses.spelled(request.origin, "turn.role"))
        messages.append({"role": "user", "content": CONTINUING})
    _write_stop(request, body, report)
    if request.format is not None:
        _write_format(request.format, request, body, report)
    losses.report_lacking(request, _LACKING, report)
    _write_members(request, body, report, _HOSTED_TIERS if takes_tiers else _SERVICE_TIERS)
    if is_session is not None and (writer.has_marks or "tools" in body):
        mark_cache(request, body, report, is_session=is_session, is_repeated=is_repeated)
    if writer.has_marks or any("cache_control" in tool for tool in body.get("tools", ())):
        bound_marks(body, report, f"{request.origin.parts}cache_control")
    return body


def _without_thoughts(messages: list[Written]) -> bool:
    """Drop the thoughts of the model's last turn, refused without thinking; whether it had any."""
    last = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
    if last is None or not isinstance(last["content"], list):
        return False
    others = [one for one in last["content"] if one["type"] not in _THOUGHTS]
    if not others or len(others) == len(last["content"]):
        return False
    last["content"] = _shortest(others)
    return True


def _write_tools(request: Request, body: Written, report: losses.LossReport) -> bool:
    """Write tools and their choice; return whether the model has to call one."""
    choice = request.tool_choice
    tools = request.allowed_tools()
    if not tools:
        # The protocol refuses a choice without tools. Calling none is the default.
        if choice is not None and (choice.forces_call or choice.allowed):
            report.drop(losses.spelled(request.origin, "tool_choice"))
        return False
    body["tools"] = made_once(tools, _tools, request.origin, report)
    if choice is not None or request.parallel_tools is False:
        body["tool_choice"] = _choice(choice or ToolChoice("auto"), request.parallel_tools)
    return choice is not None and choice.forces_call


def _choice(choice: ToolChoice, parallel: bool | None) -> Written:
    stated: Written = {"type": _MODES[choice.mode]}
    if choice.mode == "named":
        stated["name"] = LIMITS.name(choice.name or "")
    if parallel is not None and choice.mode != "none":
        stated["disable_parallel_tool_use"] = not parallel
    return stated


def _tools(
    tools: Sequence[Tool], origin: ClientProtocol, report: losses.LossReport
) -> list[Written]:
    strict = StrictTools()
    return [_tool(tool, origin, report, strict) for tool in tools]


def _tool(
    tool: Tool, origin: ClientProtocol, report: losses.LossReport, strict: StrictTools
) -> Written:
    written: Written = {"name": LIMITS.name(tool.name)}
    write_fields(tool, TranslatedTool, written, without=("name", "parameters"))
    if tool.is_strict and not strict.take(tool):
        report.drop(losses.spelled(origin, "tools.is_strict"))
        written["strict"] = False
    written["input_schema"] = _schema(tool, origin, report)
    mark, rest = split_mark(tool.extras, takes_breakpoint=False)
    if mark is not None:
        written["cache_control"] = mark
    losses.report_extras(origin, origin.tools, rest, report)
    return written


def _schema(tool: Tool, origin: ClientProtocol, report: losses.LossReport) -> Mapping[str, object]:
    """Return the schema of a tool's input, which has to be one object."""
    if tool.parameters is None:
        return {"type": "object", "properties": {}}
    path = losses.spelled(origin, "tools.parameters")
    schema = one_object(tool.parameters, path, lambda keyword: report.drop(f"{path}.{keyword}"))
    kind = schema.get("type")
    if kind == "object":
        return schema
    if kind is not None and kind != ["object"]:
        report.drop(path)
    return {**schema, "type": "object"}


def _write_stop(request: Request, body: Written, report: losses.LossReport) -> None:
    if not request.stop:
        return
    stop = tuple(text for text in request.stop if text.strip())  # the protocol refuses blank ones
    if len(stop) < len(request.stop):
        report.drop(losses.spelled(request.origin, "stop"))
    if stop:
        body["stop_sequences"] = list(stop)


def _write_format(form: Format, request: Request, body: Written, report: losses.LossReport) -> None:
    """Write a schema, which is always enforced; JSON without a schema cannot be requested."""
    if form.kind == "text":
        return
    if form.schema is None:
        report.drop(losses.spelled(request.origin, "format"))
        return
    path = losses.spelled(request.origin, "format.schema")
    schema = enforced(form.schema, lambda keyword: report.drop(f"{path}.{keyword}"))
    for name, field, value in (
        ("title", "format.name", form.name),
        ("description", "format.description", form.description),
    ):
        if value is None:
            continue
        # Nothing may stand beside a reference.
        if "$ref" in schema or schema.setdefault(name, value) != value:
            report.drop(losses.spelled(request.origin, field))
    if form.is_strict is False:
        report.drop(losses.spelled(request.origin, "format.is_strict"))
    config = body.setdefault("output_config", {})
    config["format"] = {"type": "json_schema", "schema": schema}


def _write_members(
    request: Request, body: Written, report: losses.LossReport, tiers: Mapping[str, str]
) -> None:
    """Write the user, and members of the client's protocol that this one shares."""
    carried = set()
    user = request.user
    if (
        request.extras and request.origin.provider is not None
    ):  # the one whose words for both are documented
        tier = request.extras.get("service_tier")
        if isinstance(tier, str) and tier in tiers:
            body["service_tier"] = tiers[tier]
            carried.add("service_tier")
        identifier = request.extras.get(USER_EXTRA)
        if user is None and isinstance(identifier, str):
            user = identifier
            carried.add(USER_EXTRA)
        if request.extras.get("prompt_cache_options") == {"mode": "explicit"}:
            carried.add("prompt_cache_options")  # nothing but its breakpoints is marked
    if user is not None:
        body["metadata"] = {"user_id": user}
    losses.report_members(request, report, carried=carried)
