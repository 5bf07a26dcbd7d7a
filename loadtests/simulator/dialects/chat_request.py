"""How a request on the chat-completions wire reads. Its answers are in `chat.py`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from loadtests.simulator.ask import (
    NULL,
    Ask,
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

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
MAX_CHOICES: Final = 8


class _Message(msgspec.Struct):
    role: Role
    content: msgspec.Raw = NULL


class _Function(msgspec.Struct):
    name: str
    parameters: msgspec.Raw = NULL


class _Tool(msgspec.Struct):
    type: str
    function: _Function | None = None


class _Choice(msgspec.Struct):
    function: _Function | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Schema(msgspec.Struct):
    schema: msgspec.Raw = NULL


class _Format(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[_Message]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    n: int | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    prompt_cache_key: str | None = None
    response_format: _Format | None = None
    sim: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Request)


def read(body: bytes) -> Ask:
    """The request in the common shape; raises Refusal."""
    request = decode(_decoder, body)
    if not request.messages:
        raise Refusal(400, "Invalid 'messages': empty array. Expected at least one message.")
    size = sum(size_of(message.content) for message in request.messages)
    ask = Ask(
        model=request.model,
        stream=bool(request.stream),
        input_tokens=tokens_of(size),
        max_tokens=request.max_completion_tokens or request.max_tokens,
        choices=max(1, min(request.n or 1, MAX_CHOICES)),
        reasoning_tokens=effort_tokens(request.reasoning_effort),
        reads_cache=request.prompt_cache_key is not None,
        sim=given(request.sim),
    )
    with content_of("messages[].content"):
        _read_last_turn(ask, request.messages)
    if request.stream_options is not None:
        ask.include_usage = bool(request.stream_options.include_usage)
    if request.tools:
        _read_tools(ask, request)
    if request.response_format is not None and request.response_format.type != "text":
        ask.wants_json = True
        if request.response_format.json_schema is not None:
            ask.json_schema = bytes(request.response_format.json_schema.schema)
    return ask


def _read_last_turn(ask: Ask, messages: list[_Message]) -> None:
    if messages[-1].role in ("tool", "function"):
        ask.tool_result = content_text(messages[-1].content)
    for message in reversed(messages):
        if message.role == "user":
            ask.text = content_text(message.content)
            return


def _read_tools(ask: Ask, request: _Request) -> None:
    functions = [tool.function for tool in request.tools or () if tool.function is not None]
    choice = request.tool_choice
    offer(
        ask,
        (Tool(name=tool.name, schema=bytes(tool.parameters)) for tool in functions),
        chosen=choice.function.name if isinstance(choice, _Choice) and choice.function else None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )
