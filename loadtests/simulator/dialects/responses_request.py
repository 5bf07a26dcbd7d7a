"""How a request on the responses wire reads. Its answers are in `responses.py`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from loadtests.simulator.ask import (
    NULL,
    Ask,
    Picture,
    Refusal,
    Tool,
    content_of,
    content_text,
    effort_tokens,
    given,
    offer,
    size_of,
    tokens_of,
)
from loadtests.simulator.dialects.base import decode

_DRAW = "image_generation"
_SEARCH = "web_search"  # and a version behind it


class _Item(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    content: msgspec.Raw = NULL
    output: msgspec.Raw = NULL


class _Tool(msgspec.Struct):
    type: str
    name: str | None = None
    size: str | None = None
    partial_images: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    parameters: msgspec.Raw = NULL


class _Choice(msgspec.Struct):
    type: str
    name: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class _Format(msgspec.Struct):
    type: str
    schema: msgspec.Raw = NULL


class _Text(msgspec.Struct):
    format: _Format | None = None


class _Request(msgspec.Struct):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: _Reasoning | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    text: _Text | None = None
    sim: msgspec.Raw = NULL


class _Repeated(msgspec.Struct):
    """Members the answer repeats as they came."""

    tools: msgspec.Raw = msgspec.Raw(b"[]")
    tool_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    text: msgspec.Raw = msgspec.Raw(b'{"format":{"type":"text"}}')


_decoder = msgspec.json.Decoder(_Request)
_repeated = msgspec.json.Decoder(_Repeated)


def read(body: bytes) -> Ask:
    """The request in the common shape; raises Refusal."""
    request = decode(_decoder, body)
    items = request.input
    if isinstance(items, str):
        raise Refusal(400, "Input must be a list.")
    if not items:
        raise Refusal(400, "Invalid 'input': empty array. Expected at least one item.")
    if request.previous_response_id is not None:
        raise Refusal(400, "Previous responses are not stored here: 'previous_response_id'.")
    effort = request.reasoning.effort if request.reasoning is not None else None
    ask = Ask(
        model=request.model,
        stream=bool(request.stream),
        input_tokens=tokens_of(sum(size_of(item.content) + size_of(item.output) for item in items)),
        max_tokens=request.max_output_tokens,
        reasoning_tokens=effort_tokens(effort),
        reads_cache=request.prompt_cache_key is not None,
        sim=given(request.sim),
        echoed=_echoed(request, body),
    )
    with content_of("input[].content"):
        _read_last_turn(ask, items)
    if request.reasoning is not None and request.reasoning.summary is not None:
        ask.shows_reasoning = True
    if request.text is not None and request.text.format is not None:
        ask.wants_json = request.text.format.type != "text"
        ask.json_schema = bytes(request.text.format.schema)
    if request.tools:
        _read_tools(ask, request)
    return ask


def _read_last_turn(ask: Ask, items: list[_Item]) -> None:
    if items[-1].type == "function_call_output":
        ask.tool_result = content_text(items[-1].output)
    for item in reversed(items):
        if item.role == "user":
            ask.text = content_text(item.content)
            return


def _read_tools(ask: Ask, request: _Request) -> None:
    functions = [tool for tool in request.tools or () if tool.type == "function" and tool.name]
    choice = request.tool_choice
    if isinstance(choice, _Choice) and choice.type.startswith((_DRAW, _SEARCH)):
        functions = []
    _read_builtin(ask, request)
    offer(
        ask,
        (Tool(name=tool.name or "", schema=bytes(tool.parameters)) for tool in functions),
        chosen=choice.name if isinstance(choice, _Choice) else None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )


def _read_builtin(ask: Ask, request: _Request) -> None:
    """All that are offered run, unless another choice is made."""
    choice = request.tool_choice
    for tool in request.tools or ():
        if choice == "none" or (isinstance(choice, _Choice) and choice.type != tool.type):
            continue
        if tool.type == _DRAW:
            ask.picture = Picture(
                size=tool.size or "1024x1024", partial_images=tool.partial_images or 0
            )
        elif tool.type.startswith(_SEARCH):
            ask.searches = True


def _echoed(request: _Request, body: bytes) -> dict[str, Any]:
    repeated = _repeated.decode(body) if request.tools or request.text else _Repeated()
    effort = request.reasoning.effort if request.reasoning is not None else None
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "reasoning": {"effort": effort, "summary": None},
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": repeated.text,
        "tool_choice": repeated.tool_choice,
        "tools": repeated.tools,
        "top_p": 1.0 if request.top_p is None else request.top_p,
    }
