"""Decodes a gemini request into the canonical one.

`channels/dialects/gemini` has validated the body; an invalid member that is only read here raises
InvalidRequest. `encode.py` is the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from channels.dialects.gemini.parts import (
    ORIGIN,
    Signature,
    camel_keys,
    read_file,
    read_inline,
    read_response,
    read_signature,
)
from channels.errors import InvalidRequest
from channels.families import GEMINI
from channels.json.lenient import dumps
from channels.translation.codec import Members, merged
from channels.translation.model import (
    EMPTY,
    Effort,
    Format,
    Media,
    Part,
    Reasoning,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from channels.translation.tool_calls import OpenCalls, made_id

# The gemini protocol's schemas as JSON schemas; `schemas.py` is the reverse.
#
# The protocol's own schema is a subset of OpenAPI's: types in capitals, `nullable`, counts as
# strings, formats of storage. JSON schemas, which the protocol has in other members, are unchanged.

# Far deeper than any schema of data.
_DEPTH_MAX = 64

_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# Formats of storage, which JSON schema does not have; `enum` is implied by its values.
_STORAGE_FORMATS = frozenset(("enum", "int32", "int64", "float", "double"))
# JSON schema's names without the sign, as the protocol spells them.
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_WORDS = {"type", "nullable", "format", "example", "propertyOrdering"}


def read_schema(schema: Mapping[str, Any], path: str, *, closes: bool = False) -> dict[str, Any]:
    """Return the JSON schema. Raises InvalidRequest with `path` for one that is too deep.

    `closes`: objects only have the listed members, as the protocol enforces for responses.
    """
    read: dict[str, Any] = _Reader(path, closes=closes).read(schema, depth=0)
    return read


class _Reader:
    __slots__ = ("_closes", "_path")

    def __init__(self, path: str, *, closes: bool) -> None:
        self._path = path
        self._closes = closes

    def read(self, schema: Any, *, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        if depth > _DEPTH_MAX:
            raise InvalidRequest(f"{self._path}: the schema is nested too deep.", self._path)
        payload = camel_keys(schema)
        read: dict[str, Any] = {}
        kind = _kind(payload.get("type"))
        if kind is not None:
            read["type"] = kind
        for name, value in payload.items():
            if value is None or name in _WORDS:
                continue
            read[_RENAMED.get(name, name)] = self._member(name, value, depth=depth)
        stated = payload.get("format")
        if isinstance(stated, str) and stated not in _STORAGE_FORMATS:
            read["format"] = stated
        if payload.get("example") is not None:
            read.setdefault("examples", [payload["example"]])
        if payload.get("nullable") is True:
            _allow_null(read)
        properties = read.get("properties")
        if isinstance(properties, Mapping):
            read["properties"] = _ordered(properties, payload.get("propertyOrdering"))
            if self._closes:
                read.setdefault("additionalProperties", False)
        return read

    def _member(self, name: str, value: Any, *, depth: int) -> Any:
        if name in ("properties", "defs", "$defs") and isinstance(value, Mapping):
            return {one: self.read(payload, depth=depth + 1) for one, payload in value.items()}
        if name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            return [self.read(one, depth=depth + 1) for one in value]
        if name in ("items", "additionalProperties", "not"):
            return self.read(value, depth=depth + 1)
        if name in _COUNTS and isinstance(value, str) and value.isdecimal():
            return int(value)
        return value


def _kind(stated: Any) -> Any:
    if isinstance(stated, list):
        return [_kind(one) for one in stated]
    if not isinstance(stated, str):
        return stated
    return None if stated.upper() == "TYPE_UNSPECIFIED" else stated.lower()


def _allow_null(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    elif isinstance(kind, list) and "null" not in kind:
        schema["type"] = [*kind, "null"]
    elif kind is None and isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    values = schema.get("enum")
    if isinstance(values, list) and None not in values:
        schema["enum"] = [*values, None]


def _ordered(properties: Mapping[str, Any], order: Any) -> dict[str, Any]:
    names = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    first = {name: properties[name] for name in names if name in properties}
    return {**first, **properties}


# Parses the members of `generationConfig`; `encode.py` is the reverse.

_JSON = "application/json"
_TEXT = "text/plain"
_LEVELS: Mapping[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
    "XHIGH": "xhigh",
}
_UNSPECIFIED = "THINKING_LEVEL_UNSPECIFIED"
# The budget by which the model decides, and that which disables thinking.
_DYNAMIC = -1
_OFF = 0


def read_config(config: Members | None, left_over: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical request's fields that the config has. Raises InvalidRequest."""
    if config is None:
        return {}
    stop = config.array("stopSequences")
    if not all(isinstance(text, str) for text in stop):
        path = config.path("stopSequences")
        raise InvalidRequest(f"{path}: expected an array of strings.", path)
    fields: dict[str, Any] = {
        "max_tokens": config.integer("maxOutputTokens"),
        "temperature": config.number("temperature"),
        "top_p": config.number("topP"),
        "top_k": config.integer("topK"),
        "stop": tuple(stop),
        "seed": config.integer("seed"),
        "frequency_penalty": config.number("frequencyPenalty"),
        "presence_penalty": config.number("presencePenalty"),
        "count": config.integer("candidateCount"),
        "format": _read_format(config, left_over),
        "reasoning": _read_reasoning(config, left_over),
    }
    for name, value in config.rest().items():
        left_over[f"generationConfig.{name}"] = value
    return fields


def _read_format(config: Members, left_over: dict[str, Any]) -> Format | None:
    mime_type = config.text("responseMimeType")
    own = config.mapping("responseSchema")
    schema = config.mapping("responseJsonSchema")
    older = config.mapping("_responseJsonSchema")
    schema = older if schema is None else schema
    if mime_type not in (None, _JSON, _TEXT):
        # Such as text/x.enum: one of the schema's values, not as JSON.
        left_over["generationConfig.responseMimeType"] = mime_type
        for name, payload in (("responseSchema", own), ("responseJsonSchema", schema)):
            if payload is not None:
                left_over[f"generationConfig.{name}"] = payload
        return None
    if schema is not None:
        return Format("schema", schema=schema, is_strict=True)
    if own is not None:
        closed = read_schema(own, config.path("responseSchema"), closes=True)
        return Format("schema", schema=closed, is_strict=True)
    if mime_type is None:
        return None
    return Format("json" if mime_type == _JSON else "text")


def _read_reasoning(config: Members, left_over: dict[str, Any]) -> Reasoning | None:
    payload = config.mapping("thinkingConfig")
    if payload is None:
        return None
    stated = Members(camel_keys(payload), config.path("thinkingConfig"))
    level = (stated.text("thinkingLevel") or _UNSPECIFIED).upper()
    budget = stated.integer("thinkingBudget")
    shows = stated.boolean("includeThoughts")
    for name, value in stated.rest().items():
        left_over[f"generationConfig.thinkingConfig.{name}"] = value
    if budget is not None:
        _check_budget(budget, level, stated.path("thinkingBudget"))
    effort = _LEVELS.get(level)
    if effort is None and level != _UNSPECIFIED:
        left_over["generationConfig.thinkingConfig.thinkingLevel"] = level
    is_enabled = None if budget is None else {_OFF: False, _DYNAMIC: True}.get(budget)
    if is_enabled is not None:
        budget = None
    reasoning = Reasoning(
        effort=effort, budget_tokens=budget, is_enabled=is_enabled, shows_thoughts=shows
    )
    return None if reasoning == Reasoning() else reasoning


def _check_budget(budget: int, level: str, path: str) -> None:
    if level != _UNSPECIFIED:
        raise InvalidRequest(f"{path}: send either it or thinkingLevel, not both.", path)
    if budget < _DYNAMIC:
        raise InvalidRequest(f"{path}: expected a number of tokens, 0 or -1.", path)


# Decodes the parts of a gemini request.
#
# Calls may lack ids: they get reproducible ones, and a result belongs to the oldest call of its
# name without a result. What only this provider understands (code it ran, files it stores) is kept
# in the extras of a text that means the same to another model.

# The member that determines what a part is, in order of precedence.
_KINDS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")
_DETAILS = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """A thought, or a piece of one; the last piece may be signed."""

    text: str
    signature: Signature | None


class PartReader:
    """Decodes the parts of one request, turn by turn; `left_over`: members that are not decoded."""

    __slots__ = ("_count", "_names", "_open", "_waiting", "left_over", "repeated")

    def __init__(self, left_over: dict[str, Any]) -> None:
        self.left_over = left_over
        self.repeated = 0  # results that were left out, because another one has their id
        self._waiting: dict[str, int] = {}  # calls without a result, by their stated ids
        self._names: dict[str, str] = {}  # by call id
        self._open = OpenCalls()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PartReader {self._count} calls, {self._open}>"

    def read(self, parts: Sequence[Any], *, is_model: bool) -> list[Part | ThoughtPiece]:
        """Return the parts of a turn, thoughts in the pieces in which they came."""
        read: list[Part | ThoughtPiece] = []
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

    def _read_part(self, part: Mapping[str, Any]) -> list[Part]:
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
        read: list[Part] = []
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
                read.append(Text(words, extras))
        if signature is not None:
            read.append(_signed("", signature))
        return read

    def _read_call(
        self, stated: Any, extras: dict[str, Any], signature: Signature | None
    ) -> ToolCall:
        call = camel_keys(stated) if isinstance(stated, Mapping) else {}
        self._count += 1
        name = _string(call, "name")
        call_id = _string(call, "id") or made_id(GEMINI.protocol, str(self._count), name)
        self._names[call_id] = name
        self._open.add(name, call_id)
        self._waiting[call_id] = self._waiting.get(call_id, 0) + 1
        args = call.get("args")
        extras.update(_rest("functionCall", call, ("id", "name", "args")))
        return ToolCall(
            call_id,
            name,
            dumps({} if args is None else args).decode(),
            signature=None if signature is None else signature.value,
            signer=None if signature is None else signature.signer,
            extras=extras,
        )

    def _is_repeated(self, stated: Any) -> bool:
        """Whether another result had this id, as where a client resumes a conversation.

        Other protocols take one result for each call.
        """
        call_id = _string(stated, "id") if isinstance(stated, Mapping) else ""
        if not call_id:
            return False
        left = self._waiting.get(call_id, 1) - 1
        if left < 0:
            self.repeated += 1
            self.left_over["contents.parts.functionResponse"] = True
            return True
        self._waiting[call_id] = left
        return False

    def _read_result(self, stated: Any, extras: dict[str, Any]) -> ToolResult:
        result = camel_keys(stated) if isinstance(stated, Mapping) else {}
        name = _string(result, "name")
        call_id = _string(result, "id") or self._oldest_open(name)
        self._open.resolve_named(name, call_id)
        texts, is_error = read_response(result.get("response"))
        parts: list[Text | Media] = list(texts)
        media = result.get("parts")
        for one in media if isinstance(media, list) else ():
            for found in self._read_part(camel_keys(one)) if isinstance(one, Mapping) else ():
                if isinstance(found, Text | Media):
                    parts.append(found)
        extras.update(_rest("functionResponse", result, ("id", "name", "response", "parts")))
        return ToolResult(
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


def joined(parts: Iterable[Part | ThoughtPiece]) -> tuple[Part, ...]:
    """Join neighbouring pieces of a thought; a signature ends it."""
    whole: list[Part] = []
    thought: list[str] = []  # the pieces of the current thought
    for part in parts:
        is_piece = isinstance(part, ThoughtPiece)
        signature = part.signature if isinstance(part, ThoughtPiece) else None
        if thought and (not is_piece or (signature is not None and signature.is_redacted)):
            whole.append(Thinking("".join(thought)))
            thought = []
        if not isinstance(part, ThoughtPiece):
            whole.append(part)
            continue
        thought.append(part.text)
        if signature is not None:
            whole.append(_signed("".join(thought), signature))
            thought = []
    if thought:
        whole.append(Thinking("".join(thought)))
    return tuple(whole)


def text_of_code(part: Mapping[str, Any]) -> str:
    """Return code that the provider ran, or its outcome, as Markdown; empty for any other part."""
    code, outcome = part.get("executableCode"), part.get("codeExecutionResult")
    if isinstance(code, Mapping):
        language = _string(code, "language").lower()
        if language == "language_unspecified":
            language = ""
        return f"\n```{language}\n{_string(code, 'code').rstrip()}\n```\n"
    if isinstance(outcome, Mapping):
        return f"\n```\n{_string(outcome, 'output').rstrip()}\n```\n"
    return ""


def _media(kind: str, value: Any, extras: dict[str, Any]) -> Text | Media:
    if kind == "inlineData":
        media = read_inline(value, extras)
    else:
        media = read_file(value, extras)
    if media is None:
        return Text(_address(value), {**extras, kind: value})
    resolution = extras.get("mediaResolution")
    level = resolution.get("level") if isinstance(resolution, Mapping) else None
    if isinstance(level, str) and level in _DETAILS:
        rest = {name: payload for name, payload in extras.items() if name != "mediaResolution"}
        media = replace(media, detail=_DETAILS[level], extras=rest)
    return media


def _address(value: Any) -> str:
    """Return a text in place of a file that only the provider has: its name in brackets."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    name = _string(payload, "displayName") or _string(payload, "fileUri")
    return f"[{name}]" if name else ""


def _signed(text: str, signature: Signature) -> Thinking:
    if signature.is_redacted:
        return Thinking(text, redacted=signature.value, signer=signature.signer)
    return Thinking(text, signature=signature.value, signer=signature.signer)


def _rest(path: str, value: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {
        f"{path}.{name}": payload
        for name, payload in value.items()
        if name not in known and payload is not None
    }


def _string(value: Mapping[str, Any], name: str) -> str:
    payload = value.get(name)
    return payload if isinstance(payload, str) else ""


_CALLING = "toolConfig.functionCallingConfig"


def decode_request(body: Mapping[str, Any]) -> Request:
    """Decode a request. Raises InvalidRequest with the member at fault."""
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
    """Return an object's members, in camel case; None without the object."""
    payload = members.mapping(name)
    return None if payload is None else Members(camel_keys(payload), members.path(name))


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
    """Return the turns, and the paths of empty ones.

    Neighbours of one role are joined first, because a thought may continue in the next.
    """
    spoken: list[tuple[bool, list[Part | ThoughtPiece]]] = []
    empty: list[str] = []
    for stated in members.objects("contents"):
        is_model, repeated = stated.text("role") == "model", reader.repeated
        parts = reader.read(stated.array("parts"), is_model=is_model)
        for name, value in stated.rest().items():
            reader.left_over[f"contents.{name}"] = value
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
        # Such as VALIDATED: the model chooses, and its calls are checked more strictly.
        left_over[f"{_CALLING}.mode"] = mode
    elif mode != "AUTO" and not allowed:
        return None
    return ToolChoice("auto", allowed=tuple(allowed))
