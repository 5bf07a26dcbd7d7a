"""How a request on the native-content wire reads. Its answers are in `gemini.py`.

The wire's own names are camelCase; the structs keep them, so that they can be found.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loadtests.simulator.ask import (
    NULL,
    Ask,
    Refusal,
    Tool,
    content_of,
    given,
    offer,
    size_of,
    tokens_of,
)
from loadtests.simulator.dialects.base import decode


class _FunctionResponse(msgspec.Struct):
    name: str
    response: msgspec.Raw = NULL


class _Part(msgspec.Struct):
    text: str | None = None
    functionResponse: _FunctionResponse | None = None


class _Content(msgspec.Struct):
    role: Literal["user", "model", "function"] | None = None
    parts: msgspec.Raw = NULL


class _Declaration(msgspec.Struct):
    name: str
    parameters: msgspec.Raw = NULL
    parametersJsonSchema: msgspec.Raw = NULL
    parameters_json_schema: msgspec.Raw = NULL  # as the official library spells it


class _Tool(msgspec.Struct):
    functionDeclarations: list[_Declaration] | None = None


class _Calling(msgspec.Struct):
    mode: str | None = None
    allowedFunctionNames: list[str] | None = None


class _ToolConfig(msgspec.Struct):
    functionCallingConfig: _Calling | None = None


class _Thinking(msgspec.Struct):
    thinkingBudget: int | None = None
    includeThoughts: bool | None = None


class _Generation(msgspec.Struct):
    maxOutputTokens: int | None = None
    thinkingConfig: _Thinking | None = None
    responseMimeType: str | None = None
    responseSchema: msgspec.Raw = NULL
    responseJsonSchema: msgspec.Raw = NULL


class _Request(msgspec.Struct):
    contents: list[_Content]
    tools: list[_Tool] | None = None
    toolConfig: _ToolConfig | None = None
    generationConfig: _Generation | None = None
    cachedContent: str | None = None
    sim: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Request)
_parts = msgspec.json.Decoder(list[_Part] | None)


def read(body: bytes, *, model: str, is_stream: bool, as_array: bool) -> Ask:
    """The request in the common shape; raises Refusal."""
    request = decode(_decoder, body)
    if not request.contents:
        raise Refusal(400, "* GenerateContentRequest.contents: contents is not specified")
    ask = Ask(
        model=model,
        stream=is_stream,
        as_array=as_array,
        input_tokens=tokens_of(sum(size_of(turn.parts) for turn in request.contents)),
        reads_cache=request.cachedContent is not None,
        sim=given(request.sim),
    )
    with content_of("contents"):
        _read_last_turn(ask, request.contents)
    if request.generationConfig is not None:
        _read_generation(ask, request.generationConfig)
    if request.tools:
        _read_tools(ask, request)
    return ask


def _read_last_turn(ask: Ask, contents: list[_Content]) -> None:
    for turn in reversed(contents):
        if turn.role == "model":
            continue
        parts = _parts.decode(turn.parts) or []
        ask.text = " ".join(part.text for part in parts if part.text)
        results = [part.functionResponse for part in parts if part.functionResponse is not None]
        if results:
            ask.tool_result = bytes(results[-1].response).decode()
        return


def _read_generation(ask: Ask, config: _Generation) -> None:
    ask.max_tokens = config.maxOutputTokens
    thinking = config.thinkingConfig
    if thinking is not None and thinking.thinkingBudget != 0:
        ask.reasoning_tokens = min(max(thinking.thinkingBudget or 64, 1), 64)
        ask.shows_reasoning = bool(thinking.includeThoughts)
    if config.responseMimeType == "application/json":
        ask.wants_json = True
        ask.json_schema = _either(config.responseSchema, config.responseJsonSchema)


def _read_tools(ask: Ask, request: _Request) -> None:
    declared = [one for tool in request.tools or () for one in tool.functionDeclarations or ()]
    calling = request.toolConfig.functionCallingConfig if request.toolConfig else None
    allowed = calling.allowedFunctionNames if calling is not None else None
    tools = (
        Tool(
            name=tool.name,
            schema=_either(tool.parameters, tool.parametersJsonSchema, tool.parameters_json_schema),
        )
        for tool in declared
        if not allowed or tool.name in allowed
    )
    offer(ask, tools, is_forbidden=calling is not None and calling.mode == "NONE")


def _either(schema: msgspec.Raw, *others: msgspec.Raw) -> bytes:
    """The schema under whichever of its names was given."""
    return next(filter(None, map(given, (schema, *others))), b"null")
