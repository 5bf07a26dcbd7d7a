"""Decodes a gemini request into the canonical one.

`channels/dialects/gemini` has validated the body; an invalid member that is only read here raises
InvalidRequest. `encode.py` is the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from channels.dialects.gemini.function_responses import read_response
from channels.dialects.gemini.generation_config import read_config
from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.members import ORIGIN, camel_keys
from channels.dialects.gemini.schemas import read_schema
from channels.dialects.gemini.signatures import Signature, read_signature
from channels.families import GEMINI
from channels.json.lenient import dumps, text_in
from channels.translation import model
from channels.translation.body_members import Members
from channels.translation.identifiers import made_id
from channels.translation.open_calls import OpenCalls
from channels.translation.turns import EMPTY, merged

# The member that determines what a part is, in order of precedence.
_KINDS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")
_DETAILS = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """A thought, or a piece of one; the last piece may be signed."""

    text: str
    signature: Signature | None


class PartReader:
    """Decodes the parts of one request, turn by turn; `left_over`: members that are not decoded.

    Calls may lack ids: they get reproducible ones, and a result belongs to the oldest call of its
    name without a result. What only this provider understands (code it ran, files it stores) is
    kept in the extras of a text that means the same to another model.
    """

    __slots__ = ("_count", "_names", "_open", "_waiting", "left_over", "repeated")

    def __init__(self, left_over: dict[str, object]) -> None:
        self.left_over = left_over
        self.repeated = 0  # results that were left out, because another one has their id
        self._waiting: dict[str, int] = {}  # calls without a result, by their stated ids
        self._names: dict[str, str] = {}  # by call id
        self._open = OpenCalls()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PartReader {self._count} calls, {self._open}>"

    def read(self, parts: Sequence[object], *, is_model: bool) -> list[model.Part | ThoughtPiece]:
        """Return the parts of a turn, thoughts in the pieces in which they came."""
        read: list[model.Part | ThoughtPiece] = []
        for stated in parts:
            if not isinstance(stated, Mapping):
                continue
            part = camel_keys(stated)
            text = part.get("text")
            if part.get("thought") is not True or not isinstance(text, str):
                read.extend(self._read_part(part))
                continue
            signature = read_signature(part.get("thoughtSignature"))
            if not is_model:
                self.left_over["contents.parts.thought"] = True
            elif text or signature is not None:
                read.append(ThoughtPiece(text, signature))
        return read

    def _read_part(self, part: Mapping[str, object]) -> list[model.Part]:
        kind = next((name for name in _KINDS if part.get(name) is not None), "")
        extras = {
            name: value
            for name, value in part.items()
            if value is not None and name not in (kind, "thoughtSignature", "text")
        }
        if extras.get("thought") is False:
            del extras["thought"]
        signature = read_signature(part.get("thoughtSignature"))
        if kind == "functionCall":
            return [self._read_call(part[kind], extras, signature)]
        read: list[model.Part] = []
        if kind == "functionResponse":
            if self._is_repeated(part[kind]):
                return []
            read.append(self._read_result(part[kind], extras))
        elif kind in ("inlineData", "fileData"):
            read.append(_media(kind, part[kind], extras))
        else:
            text = part.get("text")
            words = text if isinstance(text, str) else text_of_code(part)
            if words or extras:
                read.append(model.Text(words, extras))
        if signature is not None:
            read.append(_signed("", signature))
        return read

    def _read_call(
        self, stated: object, extras: dict[str, object], signature: Signature | None
    ) -> model.ToolCall:
        call = camel_keys(stated) if isinstance(stated, Mapping) else {}
        self._count += 1
        name = text_in(call, "name")
        call_id = text_in(call, "id") or made_id(GEMINI.protocol, str(self._count), name)
        self._names[call_id] = name
        self._open.add(name, call_id)
        self._waiting[call_id] = self._waiting.get(call_id, 0) + 1
        args = call.get("args")
        extras.update(_rest("functionCall", call, ("id", "name", "args")))
        return model.ToolCall(
            call_id,
            name,
            dumps({} if args is None else args).decode(),
            signature=None if signature is None else signature.value,
            signer=None if signature is None else signature.signer,
            extras=extras,
        )

    def _is_repeated(self, stated: object) -> bool:
        """Whether another result had this id, as where a client resumes a conversation.

        Other protocols take one result for each call.
        """
        call_id = text_in(stated, "id") if isinstance(stated, Mapping) else ""
        if not call_id:
            return False
        left = self._waiting.get(call_id, 1) - 1
        if left < 0:
            self.repeated += 1
            self.left_over["contents.parts.functionResponse"] = True
            return True
        self._waiting[call_id] = left
        return False

    def _read_result(self, stated: object, extras: dict[str, object]) -> model.ToolResult:
        result = camel_keys(stated) if isinstance(stated, Mapping) else {}
        name = text_in(result, "name")
        call_id = text_in(result, "id") or self._oldest_open(name)
        self._open.resolve_named(name, call_id)
        texts, is_error = read_response(result.get("response"))
        parts: list[model.Text | model.Media] = list(texts)
        media = result.get("parts")
        for one in media if isinstance(media, list) else ():
            for found in self._read_part(camel_keys(one)) if isinstance(one, Mapping) else ():
                if isinstance(found, model.Text | model.Media):
                    parts.append(found)
        extras.update(_rest("functionResponse", result, ("id", "name", "response", "parts")))
        return model.ToolResult(
            call_id,
            name or self._names.get(call_id),
            tuple(parts),
            is_error=is_error,
            extras=extras,
        )

    def _oldest_open(self, name: str) -> str:
        if (call_id := self._open.oldest(name)) is not None:
            return call_id
        self._count += 1
        return made_id(GEMINI.protocol, "result", str(self._count), name)


def joined(parts: Iterable[model.Part | ThoughtPiece]) -> tuple[model.Part, ...]:
    """Join neighbouring pieces of a thought; a signature ends it."""
    whole: list[model.Part] = []
    thought: list[str] = []  # the pieces of the current thought
    for part in parts:
        is_piece = isinstance(part, ThoughtPiece)
        signature = part.signature if isinstance(part, ThoughtPiece) else None
        if thought and (not is_piece or (signature is not None and signature.is_redacted)):
            whole.append(model.Thinking("".join(thought)))
            thought = []
        if not isinstance(part, ThoughtPiece):
            whole.append(part)
            continue
        thought.append(part.text)
        if signature is not None:
            whole.append(_signed("".join(thought), signature))
            thought = []
    if thought:
        whole.append(model.Thinking("".join(thought)))
    return tuple(whole)


def text_of_code(part: Mapping[str, object]) -> str:
    """Return code that the provider ran, or its outcome, as Markdown; empty for any other part."""
    code, outcome = part.get("executableCode"), part.get("codeExecutionResult")
    if isinstance(code, Mapping):
        language = text_in(code, "language").lower()
        if language == "language_unspecified":
            language = ""
        return f"\n```{language}\n{text_in(code, 'code').rstrip()}\n```\n"
    if isinstance(outcome, Mapping):
        return f"\n```\n{text_in(outcome, 'output').rstrip()}\n```\n"
    return ""


def _media(kind: str, value: object, extras: dict[str, object]) -> model.Text | model.Media:
    if kind == "inlineData":
        media = read_inline(value, extras)
    else:
        media = read_file(value, extras)
    if media is None:
        return model.Text(_address(value), {**extras, kind: value})
    resolution = extras.get("mediaResolution")
    level = resolution.get("level") if isinstance(resolution, Mapping) else None
    if isinstance(level, str) and level in _DETAILS:
        rest = {name: payload for name, payload in extras.items() if name != "mediaResolution"}
        media = replace(media, detail=_DETAILS[level], extras=rest)
    return media


def _address(value: object) -> str:
    """Return a text in place of a file that only the provider has: its name in brackets."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    name = text_in(payload, "displayName") or text_in(payload, "fileUri")
    return f"[{name}]" if name else ""


def _signed(text: str, signature: Signature) -> model.Thinking:
    if signature.is_redacted:
        return model.Thinking(text, redacted=signature.value, signer=signature.signer)
    return model.Thinking(text, signature=signature.value, signer=signature.signer)


def _rest(path: str, value: Mapping[str, object], known: tuple[str, ...]) -> dict[str, object]:
    return {
        f"{path}.{name}": payload
        for name, payload in value.items()
        if name not in known and payload is not None
    }


_CALLING = "toolConfig.functionCallingConfig"


def decode_request(body: Mapping[str, object]) -> model.Request:
    """Decode a request. Raises InvalidRequest with the member at fault."""
    members = Members(camel_keys(body))
    left_over: dict[str, object] = {}
    members.any("model")
    reader = PartReader(left_over)
    system = _read_system(members, reader)
    turns, empty = _read_turns(members, reader)
    tools = _read_tools(members, left_over)
    choice = _read_tool_choice(members, left_over)
    config = read_config(_inner(members, "generationConfig"), left_over)
    request = model.Request(
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
    """Return an object's members, in camel case; None without the object."""
    payload = members.mapping(name)
    return None if payload is None else Members(camel_keys(payload), members.path(name))


def _read_system(members: Members, reader: PartReader) -> tuple[model.Text, ...]:
    stated = members.any("systemInstruction")
    if isinstance(stated, str):
        return (model.Text(stated),) if stated else ()
    parts = stated.get("parts") if isinstance(stated, Mapping) else None
    texts = []
    for part in reader.read(parts if isinstance(parts, list) else (), is_model=False):
        if isinstance(part, model.Text):
            texts.append(part)
        else:
            reader.left_over["systemInstruction.parts"] = True
    return tuple(texts)


def _read_turns(members: Members, reader: PartReader) -> tuple[tuple[model.Turn, ...], list[str]]:
    """Return the turns, and the paths of empty ones.

    Neighbours of one role are joined first, because a thought may continue in the next.
    """
    spoken: list[tuple[bool, list[model.Part | ThoughtPiece]]] = []
    empty: list[str] = []
    for stated in members.objects("contents"):
        is_model, repeated = stated.text("role") == "model", reader.repeated
        parts = reader.read(stated.array("parts"), is_model=is_model)
        stated.leave_over(reader.left_over, "contents")
        if not parts and reader.repeated > repeated:
            continue
        if not parts:
            empty.append(stated.path("parts"))
            parts = [EMPTY]
        if spoken and spoken[-1][0] == is_model:
            spoken[-1][1].extend(parts)
        else:
            spoken.append((is_model, parts))
    turns = merged(
        model.Turn("assistant" if is_model else "user", joined(parts)) for is_model, parts in spoken
    )
    return turns, empty


def _read_tools(members: Members, left_over: dict[str, object]) -> tuple[model.Tool, ...]:
    tools = []
    for stated in members.objects("tools"):
        tool = Members(camel_keys(stated.rest()), stated.location)
        for function in tool.objects("functionDeclarations"):
            tools.append(_read_function(Members(camel_keys(function.rest()), function.location)))
        tool.leave_over(left_over, "tools")
    return tuple(tools)


def _read_function(function: Members) -> model.Tool:
    name = function.required("name")
    parameters = function.mapping("parametersJsonSchema")
    own = function.mapping("parameters")
    if parameters is None and own is not None:
        parameters = read_schema(own, function.path("parameters"))
    description = function.text("description")
    return model.Tool(name, description=description, parameters=parameters, extras=function.rest())


def _read_tool_choice(members: Members, left_over: dict[str, object]) -> model.ToolChoice | None:
    config = _inner(members, "toolConfig")
    if config is None:
        return None
    calling = _inner(config, "functionCallingConfig")
    config.leave_over(left_over, "toolConfig")
    if calling is None:
        return None
    mode = (calling.text("mode") or "").upper()
    allowed = calling.texts("allowedFunctionNames")
    calling.leave_over(left_over, _CALLING)
    if mode == "ANY":
        if len(allowed) == 1:
            return model.ToolChoice("named", allowed[0])
        return model.ToolChoice("required", allowed=allowed)
    if mode == "NONE":
        return model.ToolChoice("none")
    if mode not in ("", "MODE_UNSPECIFIED", "AUTO"):
        # Such as VALIDATED: the model chooses, and its calls are checked more strictly.
        left_over[f"{_CALLING}.mode"] = mode
    elif mode != "AUTO" and not allowed:
        return None
    return model.ToolChoice("auto", allowed=allowed)
