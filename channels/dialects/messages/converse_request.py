"""Converts a messages body to Bedrock's Converse: the same conversation under other names.

Members without a name in Converse are sent in `additionalModelRequestFields`, which the model
judges; what it cannot carry at all is refused with its path. Nothing is dropped silently.

What is read of the body has types, because only its beginning was checked: a value of another type
is the client's fault, an exception in the conversion is one of the gateway.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from channels.dialects.faults import fault_within
from channels.errors import InvalidRequest
from channels.json.lenient import dumps

_Json = dict[str, object]
_Content = str | list[_Json]
_Kind = TypeVar("_Kind")

_INFERENCE: Mapping[str, str] = MappingProxyType(
    {
        "max_tokens": "maxTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "stop_sequences": "stopSequences",
    }
)
# Bedrock's service tiers by the words of `service_tier`; None: it chooses.
TIERS: Mapping[str, str | None] = MappingProxyType(
    {
        "auto": None,
        "default": "default",
        "standard_only": "default",
        "priority": "priority",
        "flex": "flex",
    }
)
_IMAGES = {f"image/{one}": one for one in ("png", "jpeg", "gif", "webp")}
_DOCUMENTS = {"application/pdf": "pdf", "text/plain": "txt"}
# Characters not allowed in a document's name, and in a value of `requestMetadata`.
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_METADATA = re.compile(r"[A-Za-z0-9\s:_@$#=/+,.-]{0,256}", re.ASCII)
_TITLE_CHARACTERS_MAX = 150  # of the 200 of a name
_NUMBER = re.compile(r"\d+")
# Members given by the path, by the operation, or not needed.
_LEFT = frozenset({"model", "stream", "anthropic_version"})


class _SentMessage(Struct, gc=False):
    role: str
    content: _Content


class _CacheMark(Struct, gc=False, omit_defaults=True):
    ttl: str | None = None


class _Marked(Struct, gc=False):
    """A block or a tool that may end a cached prefix."""

    type: str | None = None
    cache_control: _CacheMark | None = None


class _Text(Struct, gc=False):
    text: str


class _Medium(Struct, gc=False):
    source: object = None
    title: str | None = None  # a document's


class _Source(Struct, gc=False):
    """An inline source; others have no place in Converse."""

    type: Literal["base64", "text"]
    data: str
    media_type: str | None = None


class _SentToolUse(Struct, gc=False):
    id: str
    name: str
    input: object = None


class _ToolResult(Struct, gc=False):
    tool_use_id: str
    content: _Content | None = None
    is_error: bool | None = None


class _Thinking(Struct, gc=False):
    thinking: str
    signature: str | None = None


class _RedactedThinking(Struct, gc=False):
    data: str


class _SentTool(Struct, gc=False):
    name: str
    input_schema: _Json
    description: str | None = None
    strict: bool | None = None


class _ToolChoice(Struct, gc=False):
    type: Literal["auto", "any", "tool", "none"] | None = None
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _OutputFormat(Struct, gc=False):
    schema: _Json | None = None


class _OutputConfig(Struct, gc=False):
    effort: str | None = None
    format: _OutputFormat | None = None


class _RequestMetadata(Struct, gc=False):
    user_id: str | None = None


class _ConversedBody(Struct, gc=False):
    """The members with another name or form in Converse."""

    messages: list[_SentMessage]
    system: _Content | None = None
    tools: list[_Json] | None = None
    tool_choice: _ToolChoice | None = None
    output_config: _OutputConfig | None = None
    metadata: _RequestMetadata | None = None
    service_tier: str | None = None


def converse_body(body: _Json) -> _Json:
    """Return the body for Converse. Raises InvalidRequest for what it cannot carry."""
    stated = _typed(body, _ConversedBody, "")
    contents = [
        _blocks(one.content, f"messages[{index}].content")
        for index, one in enumerate(stated.messages)
    ]
    written: _Json = {
        "messages": [
            {"role": one.role, "content": content}
            for one, content in zip(stated.messages, contents, strict=True)
        ]
    }
    if stated.system:
        written["system"] = _blocks(stated.system, "system")
    inference = {
        name: body[member] for member, name in _INFERENCE.items() if body.get(member) is not None
    }
    if inference:
        written["inferenceConfig"] = inference
    if (tools := _tools(stated, contents)) is not None:
        written["toolConfig"] = tools
    written |= _output(stated.output_config or _OutputConfig())
    written |= _metadata(stated.metadata or _RequestMetadata())
    written |= _tier("auto" if stated.service_tier is None else stated.service_tier)
    done = {*_LEFT, *_INFERENCE, *_ConversedBody.__struct_fields__}
    more = {name: value for name, value in body.items() if name not in done and value is not None}
    if more:
        written["additionalModelRequestFields"] = more
    return written


def _typed(value: object, kind: type[_Kind], at: str) -> _Kind:
    """Return a value of the body as this type. Raises InvalidRequest for any other."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise fault_within(at, error) from None


def _blocks(content: _Content, at: str) -> list[_Json]:
    """Return the blocks of a content, a text or blocks; cache marks are separate blocks."""
    if isinstance(content, str):
        return [{"text": content}]
    written: list[_Json] = []
    for index, block in enumerate(content):
        place = f"{at}[{index}]"
        marked = _typed(block, _Marked, place)
        write = None if marked.type is None else _BLOCKS.get(marked.type)
        if write is None:
            raise _unsayable(f"{place}.type", f"a block of type {marked.type!r}")
        written += [write(block, place), *_cache_point(marked)]
    return written


def _cache_point(marked: _Marked) -> list[_Json]:
    if marked.cache_control is None:
        return []
    return [{"cachePoint": {"type": "default", **msgspec.to_builtins(marked.cache_control)}}]


def _text(block: _Json, at: str) -> _Json:
    return {"text": _typed(block, _Text, at).text}


def _image(block: _Json, at: str) -> _Json:
    source = _inline(_typed(block, _Medium, at), at, "image")
    kind = _IMAGES.get(source.media_type or "")
    if kind is None:
        raise _unsayable(f"{at}.source.media_type", "an image of this type")
    return {"image": {"format": kind, "source": {"bytes": source.data}}}


def _document(block: _Json, at: str) -> _Json:
    document = _typed(block, _Medium, at)
    source = _inline(document, at, "document")
    kind = _DOCUMENTS.get(source.media_type or "")
    if kind is None:
        raise _unsayable(f"{at}.source.media_type", "a document of this type")
    is_text = source.type == "text"
    data = b64encode(source.data.encode()).decode() if is_text else source.data
    title = _NOT_IN_NAME.sub(" ", document.title or "").strip()[:_TITLE_CHARACTERS_MAX].rstrip()
    # Names must be unique: the position is part of it.
    name = f"{title or 'document'} {'-'.join(_NUMBER.findall(at))}"
    return {"document": {"format": kind, "name": name, "source": {"bytes": data}}}


def _inline(medium: _Medium, at: str, what: str) -> _Source:
    """Return the source of a medium, which has to be inline."""
    try:
        return msgspec.convert(medium.source, _Source)
    except msgspec.ValidationError:
        raise _unsayable(
            f"{at}.source", f"{what}s that are not in the request itself (base64)"
        ) from None


def _tool_use(block: _Json, at: str) -> _Json:
    call = _typed(block, _SentToolUse, at)
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.input or {}}}


def _tool_result(block: _Json, at: str) -> _Json:
    result = _typed(block, _ToolResult, at)
    written: _Json = {
        "toolUseId": result.tool_use_id,
        "content": _blocks(result.content, f"{at}.content") if result.content else [],
    }
    if result.is_error:
        written["status"] = "error"
    return {"toolResult": written}


def _thinking(block: _Json, at: str) -> _Json:
    thought = _typed(block, _Thinking, at)
    written = {"text": thought.thinking}
    if thought.signature:
        written["signature"] = thought.signature
    return {"reasoningContent": {"reasoningText": written}}


def _redacted_thinking(block: _Json, at: str) -> _Json:
    return {"reasoningContent": {"redactedContent": _typed(block, _RedactedThinking, at).data}}


_BLOCKS: Mapping[str, Callable[[_Json, str], _Json]] = MappingProxyType(
    {
        "text": _text,
        "image": _image,
        "document": _document,
        "tool_use": _tool_use,
        "tool_result": _tool_result,
        "thinking": _thinking,
        "redacted_thinking": _redacted_thinking,
    }
)


def _tools(stated: _ConversedBody, contents: Sequence[Sequence[_Json]]) -> _Json | None:
    if not stated.tools:
        return None
    choice = stated.tool_choice or _ToolChoice()
    if choice.disable_parallel_tool_use:
        raise _unsayable("tool_choice.disable_parallel_tool_use", "one call at a time")
    if choice.type == "none":
        # A conversation with calls requires their tools, which may then be called.
        blocks = (block for content in contents for block in content)
        if any("toolUse" in block or "toolResult" in block for block in blocks):
            raise _unsayable("tool_choice", "tools that must not be called")
        return None
    written: list[_Json] = []
    for index, tool in enumerate(stated.tools):
        at = f"tools[{index}]"
        marked = _typed(tool, _Marked, at)
        if marked.type not in (None, "custom"):
            raise _unsayable(f"{at}.type", "tools that the provider runs")
        written += [{"toolSpec": _tool(_typed(tool, _SentTool, at))}, *_cache_point(marked)]
    config: _Json = {"tools": written}
    if choice.type == "tool":
        if choice.name is None:
            raise InvalidRequest("tool_choice.name is missing.", "tool_choice.name")
        config["toolChoice"] = {"tool": {"name": choice.name}}
    elif choice.type is not None:
        config["toolChoice"] = {choice.type: {}}
    return config


def _tool(tool: _SentTool) -> _Json:
    written: _Json = {"name": tool.name, "inputSchema": {"json": tool.input_schema}}
    if tool.description:
        written["description"] = tool.description
    if tool.strict is not None:
        written["strict"] = tool.strict
    return written


def _output(config: _OutputConfig) -> _Json:
    written: _Json = {}
    if config.effort is not None:
        written["effort"] = config.effort
    if config.format is not None:
        schema = {"schema": dumps(config.format.schema or {}).decode()}
        written["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    return {"outputConfig": written} if written else {}


def _metadata(metadata: _RequestMetadata) -> _Json:
    user = metadata.user_id
    if user is None:
        return {}
    if not _METADATA.fullmatch(user):
        raise _unsayable("metadata.user_id", "a name with such characters")
    return {"requestMetadata": {"user_id": user}}


def _tier(tier: str) -> _Json:
    if tier not in TIERS:
        raise _unsayable("service_tier", "this tier")
    found = TIERS[tier]
    return {} if found is None else {"serviceTier": {"type": found}}


def _unsayable(param: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: the upstream of this model does not take {what}.", param)
