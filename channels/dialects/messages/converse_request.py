"""Converts a messages body to Bedrock's Converse: the same conversation under other names.

Members without a name in Converse are sent in `additionalModelRequestFields`, which the model
judges; what it cannot carry at all is refused with its path. Nothing is dropped silently.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from channels.errors import InvalidRequest
from channels.json.lenient import dumps

_Json = dict[str, Any]

_INFERENCE: Mapping[str, str] = MappingProxyType(
    {
        "max_tokens": "maxTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "stop_sequences": "stopSequences",
    }
)
_CHOICES: Mapping[str, _Json] = MappingProxyType({"auto": {"auto": {}}, "any": {"any": {}}})
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


def converse_body(body: _Json) -> _Json:
    """Return the body for Converse. Raises InvalidRequest for what it cannot carry."""
    written: _Json = {
        "messages": [
            {
                "role": message["role"],
                "content": _blocks(message["content"], f"messages[{index}].content"),
            }
            for index, message in enumerate(body["messages"])
        ]
    }
    if system := body.get("system"):
        written["system"] = _blocks(system, "system")
    inference = {
        name: body[member] for member, name in _INFERENCE.items() if body.get(member) is not None
    }
    if inference:
        written["inferenceConfig"] = inference
    if (tools := _tools(body, written["messages"])) is not None:
        written["toolConfig"] = tools
    done = {*_LEFT, *_INFERENCE, "messages", "system", "tools", "tool_choice"}
    for member, write in _MEMBERS.items():
        done.add(member)
        if (value := body.get(member)) is not None:
            written.update(write(value))
    more = {name: value for name, value in body.items() if name not in done and value is not None}
    if more:
        written["additionalModelRequestFields"] = more
    return written


def _blocks(content: Any, at: str) -> list[_Json]:
    """Return the blocks of a content, a text or blocks; cache marks are separate blocks."""
    if isinstance(content, str):
        return [{"text": content}]
    written: list[_Json] = []
    for index, block in enumerate(content):
        written.append(_block(block, f"{at}[{index}]"))
        written += _cache_point(block)
    return written


def _cache_point(marked: Mapping[str, Any]) -> list[_Json]:
    mark = marked.get("cache_control")
    if not isinstance(mark, Mapping):
        return []
    ttl = {"ttl": mark["ttl"]} if "ttl" in mark else {}
    return [{"cachePoint": {"type": "default", **ttl}}]


def _block(block: Mapping[str, Any], at: str) -> _Json:
    kind = block.get("type")
    write = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if write is None:
        raise _unsayable(f"{at}.type", f"a block of type {kind!r}")
    return write(block, at)


def _text(block: Mapping[str, Any], at: str) -> _Json:
    return {"text": block["text"]}


def _image(block: Mapping[str, Any], at: str) -> _Json:
    source = _inline(block, at, "image")
    kind = _IMAGES.get(source.get("media_type", ""))
    if kind is None:
        raise _unsayable(f"{at}.source.media_type", "an image of this type")
    return {"image": {"format": kind, "source": {"bytes": source["data"]}}}


def _document(block: Mapping[str, Any], at: str) -> _Json:
    source = _inline(block, at, "document")
    kind = _DOCUMENTS.get(source.get("media_type", ""))
    if kind is None:
        raise _unsayable(f"{at}.source.media_type", "a document of this type")
    data = source["data"]
    if source["type"] == "text":
        data = b64encode(data.encode()).decode()
    title = _NOT_IN_NAME.sub(" ", block.get("title") or "").strip()[:_TITLE_CHARACTERS_MAX].rstrip()
    # Names must be unique: the position is part of it.
    name = f"{title or 'document'} {'-'.join(_NUMBER.findall(at))}"
    return {"document": {"format": kind, "name": name, "source": {"bytes": data}}}


def _inline(block: Mapping[str, Any], at: str, what: str) -> Mapping[str, Any]:
    """Return the source of a medium, which has to be inline."""
    source = block.get("source")
    is_inline = isinstance(source, Mapping) and source.get("type") in ("base64", "text")
    if not is_inline or not isinstance(source, Mapping) or not isinstance(source.get("data"), str):
        raise _unsayable(f"{at}.source", f"{what}s that are not in the request itself (base64)")
    return source


def _call(block: Mapping[str, Any], at: str) -> _Json:
    call = {"toolUseId": block["id"], "name": block["name"], "input": block.get("input") or {}}
    return {"toolUse": call}


def _result(block: Mapping[str, Any], at: str) -> _Json:
    content = block.get("content")
    result: _Json = {
        "toolUseId": block["tool_use_id"],
        "content": _blocks(content, f"{at}.content") if content else [],
    }
    if block.get("is_error"):
        result["status"] = "error"
    return {"toolResult": result}


def _thinking(block: Mapping[str, Any], at: str) -> _Json:
    thought = {"text": block["thinking"]}
    if block.get("signature"):
        thought["signature"] = block["signature"]
    return {"reasoningContent": {"reasoningText": thought}}


def _redacted(block: Mapping[str, Any], at: str) -> _Json:
    return {"reasoningContent": {"redactedContent": block["data"]}}


_BLOCKS: Mapping[str, Callable[[Mapping[str, Any], str], _Json]] = MappingProxyType(
    {
        "text": _text,
        "image": _image,
        "document": _document,
        "tool_use": _call,
        "tool_result": _result,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
    }
)


def _tools(body: Mapping[str, Any], messages: Sequence[_Json]) -> _Json | None:
    tools = body.get("tools")
    if not tools:
        return None
    choice = body.get("tool_choice") or {}
    if choice.get("disable_parallel_tool_use"):
        raise _unsayable("tool_choice.disable_parallel_tool_use", "one call at a time")
    kind = choice.get("type")
    if kind == "none":
        # A conversation with calls requires their tools, which may then be called.
        blocks = (block for one in messages for block in one["content"])
        if any("toolUse" in block or "toolResult" in block for block in blocks):
            raise _unsayable("tool_choice", "tools that must not be called")
        return None
    written: list[_Json] = []
    for index, tool in enumerate(tools):
        if tool.get("type") not in (None, "custom"):
            raise _unsayable(f"tools[{index}].type", "tools that the provider runs")
        written += [{"toolSpec": _tool(tool)}, *_cache_point(tool)]
    config: _Json = {"tools": written}
    if kind == "tool":
        config["toolChoice"] = {"tool": {"name": choice["name"]}}
    elif kind is not None:
        config["toolChoice"] = _CHOICES[kind]
    return config


def _tool(tool: Mapping[str, Any]) -> _Json:
    written: _Json = {"name": tool["name"], "inputSchema": {"json": tool["input_schema"]}}
    if tool.get("description"):
        written["description"] = tool["description"]
    if tool.get("strict") is not None:
        written["strict"] = tool["strict"]
    return written


def _output(config: Mapping[str, Any]) -> _Json:
    written: _Json = {}
    if (effort := config.get("effort")) is not None:
        written["effort"] = effort
    if isinstance(form := config.get("format"), Mapping):
        schema = {"schema": dumps(form.get("schema") or {}).decode()}
        written["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    return {"outputConfig": written} if written else {}


def _metadata(metadata: Mapping[str, Any]) -> _Json:
    user = metadata.get("user_id")
    if not isinstance(user, str):
        return {}
    if not _METADATA.fullmatch(user):
        raise _unsayable("metadata.user_id", "a name with such characters")
    return {"requestMetadata": {"user_id": user}}


def _tier(tier: Any) -> _Json:
    if tier not in TIERS:
        raise _unsayable("service_tier", "this tier")
    found = TIERS[tier]
    return {} if found is None else {"serviceTier": {"type": found}}


_MEMBERS: Mapping[str, Callable[[Any], _Json]] = MappingProxyType(
    {"output_config": _output, "metadata": _metadata, "service_tier": _tier}
)


def _unsayable(param: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: the upstream of this model does not take {what}.", param)
