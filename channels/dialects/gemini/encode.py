"""Encodes another protocol's canonical request as a gemini body, and reports its losses."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from channels.dialects.gemini.function_responses import write_response
from channels.dialects.gemini.generation_config import write_config
from channels.dialects.gemini.generations import generation_of
from channels.dialects.gemini.media import write_media
from channels.dialects.gemini.references import CopyRoom
from channels.dialects.gemini.schemas import write_schema
from channels.dialects.gemini.signatures import prove_calls
from channels.families import GEMINI
from channels.json.written import Written
from channels.translation import losses
from channels.translation.call_arguments import object_in, raw_arguments
from channels.translation.identifiers import IdentifierLimits
from channels.translation.model import (
    ClientProtocol,
    Media,
    Part,
    Protocol,
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


@dataclass(frozen=True)
class _GeminiLimits(IdentifierLimits):
    """Limits of names: a function's begins with a letter or an underscore; ids have no limit."""

    def name(self, name: str) -> str:
        fitted = super().name(name)
        if fitted[0].isalpha() or fitted[0] == "_":
            return fitted
        # The dot forces a change of the name, so that it differs from any real one.
        return super().name(f"_{name}.")

    def call_id(self, call_id: str) -> str:
        return call_id


LIMITS = _GeminiLimits(name_characters_max=64, id_characters_max=0)


# The user's text before a conversation that starts with a call.
_OPENING = "."


class ContentWriter:
    """Encodes system texts and turns of one request, which came in the protocol `origin`.

    Every function call of a turn has its response in the next one, in the order of the calls and by
    the function's name, and apart from the user's words; newer models require a signature on the
    first call of a turn. Thinking is only returned with a signature of this provider.
    """

    __slots__ = ("_call_order", "_calls", "_origin", "_report")

    def __init__(self, origin: ClientProtocol, report: losses.LossReport) -> None:
        self._origin = origin
        self._report = report
        self._calls: dict[str, ToolCall] = {}  # by id, in order
        self._call_order: dict[str, int] = {}  # positions of the calls

    def __repr__(self) -> str:
        return f"<ContentWriter from {self._origin.protocol}, {len(self._calls)} calls>"

    def write(
        self, system: Sequence[Text], turns: Iterable[Turn]
    ) -> tuple[Written | None, list[Written]]:
        """Return the `systemInstruction` member, or None, and the contents.

        Raises InvalidRequest for a turn that cannot be expressed, and for a request without turns.
        """
        contents = self._write_turns(turns)
        field = self._origin.system or self._origin.parts
        system_texts = [self._text(text, field=field) for text in system]
        instruction = [part for part in system_texts if part is not None]
        if not contents:
            if not instruction:
                raise unsayable(self._origin)
            # The protocol requires a conversation: instructions alone become the user's.
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            return None, [{"role": "user", "parts": instruction}]
        if _begins_with_call(contents[0]):
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            contents.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
        return ({"parts": instruction} if instruction else None), contents

    def _write_turns(self, turns: Iterable[Turn]) -> list[Written]:
        contents: list[Written] = []
        for turn in turns:
            role = "user" if turn.role == "user" else "model"
            parts = self._write_turn(turn)
            if not parts and must_be_written(turn, self._origin):
                raise unsayable(self._origin)
            # Some hosts refuse responses of functions beside anything else.
            responses = [part for part in parts if _is_response(part)]
            others = [part for part in parts if not _is_response(part)]
            for group in filter(None, (responses, others)):
                before = contents[-1] if contents else None
                if (
                    before is not None
                    and before["role"] == role
                    and _is_response(before["parts"][0]) == (group is responses)
                ):
                    before["parts"].extend(group)
                else:
                    contents.append({"role": role, "parts": group})
        return contents

    def _write_turn(self, turn: Turn) -> list[Written]:
        if turn.name is not None:
            self._report.drop(losses.spelled(self._origin, "turn.name"))
        if turn.role == "user":
            return self._write_user(turn.parts)
        return self._write_model(turn.parts)

    # --- The user's turns ---

    def _write_user(self, parts: Sequence[Part]) -> list[Written]:
        written = self._results([part for part in parts if isinstance(part, ToolResult)])
        for part in parts:
            if isinstance(part, Text | Refusal):
                if is_system(part):
                    self._report.drop(losses.spelled(self._origin, "turn.role"))
                written.append(self._text(part if isinstance(part, Text) else Text(part.text)))
            elif isinstance(part, Media):
                written.append(self._media(part))
            elif isinstance(part, Thinking):
                self._report.drop(losses.spelled(self._origin, "thinking"))
        return [part for part in written if part is not None]

    def _results(self, results: list[ToolResult]) -> list[Written | None]:
        order = self._call_order
        results.sort(key=lambda result: order.get(result.call_id, len(order)))
        written = [self._result(result) for result in results]
        for result in results:  # only newer models accept media in a result
            media = [part for part in result.parts if isinstance(part, Media)]
            written.extend(self._media(part) for part in media)
        return written

    def _result(self, result: ToolResult) -> Written | None:
        self._report_extras(result.extras)
        texts = []
        for part in result.parts:
            if isinstance(part, Text):
                self._report_extras(part.extras)
                texts.append(part.text)
        call = self._calls.get(result.call_id)
        if call is None:
            # A result without a call is refused; its text is sent as the user's.
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            return self._text(Text("\n".join(texts)))
        response = write_response(texts, is_error=result.is_error)
        function: Written = {"name": LIMITS.name(call.name), "response": response}
        return {"functionResponse": _identified(function, result.call_id)}

    # --- The model's turns ---

    def _write_model(self, parts: Sequence[Part]) -> list[Written]:
        written: list[Written] = []
        loose: deque[str] = deque()  # signatures for following parts
        for part in _without_summaries(parts):
            one: Written | None = None
            if isinstance(part, Thinking):
                one = self._thinking(part, loose)
            elif isinstance(part, ToolCall):
                one = self._call(part)
            elif isinstance(part, Text | Refusal):
                one = self._text(part if isinstance(part, Text) else Text(part.text))
            elif isinstance(part, Media):
                one = self._media(part)
            if one is None:
                continue
            if loose and "thought" not in one and "thoughtSignature" not in one:
                one["thoughtSignature"] = loose.popleft()
            written.append(one)
        for signature in loose:
            if written and written[-1].keys() == {"text"}:
                written[-1]["thoughtSignature"] = signature
            else:
                written.append({"text": "", "thoughtSignature": signature})
        prove_calls(written)
        return written

    def _thinking(self, part: Thinking, loose: deque[str]) -> Written | None:
        if part.signer != GEMINI.protocol or not part.signature:
            self._report.drop(losses.spelled(self._origin, "thinking"))
            return None
        if not part.text:
            loose.append(part.signature)
            return None
        return {"text": part.text, "thought": True, "thoughtSignature": part.signature}

    def _call(self, call: ToolCall) -> Written:
        self._report_extras(call.extras)
        self._calls[call.id] = call
        self._call_order.setdefault(call.id, len(self._call_order))
        arguments = object_in(call.arguments)
        if arguments is None:
            self._report.drop(losses.spelled(self._origin, "call.arguments"))
            arguments = raw_arguments(call.arguments)
        function = {"name": LIMITS.name(call.name), "args": arguments}
        written: Written = {"functionCall": _identified(function, call.id)}
        if call.signature is not None and call.signer == GEMINI.protocol:
            written["thoughtSignature"] = call.signature
        elif call.signature is not None:
            self._report.drop(losses.spelled(self._origin, "call.signature"))
        return written

    # --- Parts of either ---

    def _text(self, text: Text, *, field: str | None = None) -> Written | None:
        """Encode a text; the protocol refuses empty ones, which become None."""
        self._report_extras(text.extras, field=field)
        return {"text": text.text} if text.text else None

    def _media(self, media: Media) -> Written:
        self._report_extras(media.extras)
        if media.name is not None:
            self._report.drop(losses.spelled(self._origin, "media.name"))
        return write_media(media, guesses_type=True)

    def _report_extras(self, extras: Mapping[str, object], *, field: str | None = None) -> None:
        if extras:
            losses.report_extras(self._origin, field or self._origin.parts, extras, self._report)


def _without_summaries(parts: Sequence[Part]) -> list[Part]:
    """Return the parts but unsigned thoughts before a signature of this provider.

    They are its summaries for people. The thoughts themselves are in the signature, so that nothing
    is lost.
    """
    signed = [index for index, part in enumerate(parts) if _signer(part) == GEMINI.protocol]
    end = max(signed, default=0)
    return [
        part
        for index, part in enumerate(parts)
        if index >= end or not isinstance(part, Thinking) or part.signer or part.signature
    ]


def _signer(part: Part) -> Protocol | None:
    return part.signer if isinstance(part, Thinking | ToolCall) and part.signature else None


def _identified(function: Written, call_id: str) -> Written:
    return {"id": call_id, **function} if call_id else function


def _is_response(part: Written) -> bool:
    return "functionResponse" in part


def _begins_with_call(content: Written) -> bool:
    return content["role"] == "model" and any("functionCall" in part for part in content["parts"])


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def tool_names(request: Request) -> Mapping[str, str]:
    """Return the client's tool names by those that were changed."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request,
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    report: losses.LossReport,
    is_here: bool = False,
) -> Written:
    """Return the body for the upstream, without model and streaming. Raises InvalidRequest.

    The model's name decides how thinking is expressed. `is_here`: TakesLong is raised for what
    would block the event loop.
    """
    refuse_empty(request)
    writer = ContentWriter(request.origin, report)
    instruction, contents = writer.write(request.system, request.turns)
    if contents[-1]["role"] == "model" and not generation_of(model).takes_prefill:
        report.drop(losses.spelled(request.origin, "turn.role"))
        contents.append({"role": "user", "parts": [{"text": CONTINUING}]})
    body: Written = {"contents": contents}
    if instruction is not None:
        body["systemInstruction"] = instruction
    room = CopyRoom(is_here=is_here)
    _write_tools(request, body, report, room)
    config = write_config(request, model=model, max_tokens=max_tokens, report=report, room=room)
    if config:
        body["generationConfig"] = config
    carried = _write_modalities(request, body)
    if request.user is not None:
        report.drop(losses.spelled(request.origin, "user"))
    losses.report_members(request, report, carried=carried)
    return body


def _write_tools(
    request: Request, body: Written, report: losses.LossReport, room: CopyRoom
) -> None:
    choice, tools = request.tool_choice, request.tools
    if request.parallel_tools is False and tools:
        report.drop(losses.spelled(request.origin, "parallel_tools"))
    if choice is not None and choice.mode == "auto":
        # The protocol only restricts a forced choice, so the tools themselves are restricted.
        tools = request.allowed_tools()
        choice = ToolChoice("auto")
    if tools:
        declarations = [_tool(tool, request, report, room) for tool in tools]
        body["tools"] = [{"functionDeclarations": declarations}]
    elif choice is not None:
        # The protocol refuses a choice without functions; without them none is called anyway.
        if choice.forces_call or request.tools:
            report.drop(losses.spelled(request.origin, "tool_choice"))
        return
    if choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _calling(choice)}


def _calling(choice: ToolChoice) -> Written:
    calling: Written = {"mode": _MODES[choice.mode]}
    allowed = (choice.name or "",) if choice.mode == "named" else choice.allowed
    if allowed:
        calling["allowedFunctionNames"] = [LIMITS.name(name) for name in allowed]
    return calling


def _tool(tool: Tool, request: Request, report: losses.LossReport, room: CopyRoom) -> Written:
    origin = request.origin
    written: Written = {"name": LIMITS.name(tool.name)}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.parameters is not None:
        path = losses.spelled(origin, "tools.parameters")
        stated = one_object(
            {"type": "object", **tool.parameters},
            path,
            lambda keyword: report.drop(f"{path}.{keyword}"),
        )
        schema = write_schema(stated, path, report, room)
        # The protocol refuses an object without properties, but not a function without parameters.
        if schema.get("type") != "object" or schema.get("properties"):
            written["parameters"] = schema
    if tool.is_strict:
        report.drop(losses.spelled(origin, "tools.is_strict"))
    losses.report_extras(origin, origin.tools, tool.extras, report)
    return written


def _write_modalities(request: Request, body: Written) -> Collection[str]:
    """Set the response's modalities; with them chat clients request images of image models."""
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
