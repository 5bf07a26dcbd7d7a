"""How a request on the chat-completions wire reads. Its answers are in `chat.py`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from loadtests.simulator.ask import (
    NULL,
    Ask,
    Refusal,
    Tool,
    calls_allowed,
    content_text,
    effort_tokens,
    given,
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
    last = request.messages[-1]
    ask = Ask(
        model=request.model,
        stream=bool(request.stream),
        text=_last_user_text(request.messages),
        input_tokens=tokens_of(size),
        max_tokens=request.max_completion_tokens or request.max_tokens,
        choices=max(1, min(request.n or 1, MAX_CHOICES)),
        reasoning_tokens=effort_tokens(request.reasoning_effort),
        reads_cache=request.prompt_cache_key is not None,
        sim=given(request.sim),
    )
    if last.role in ("tool", "function"):
        ask.tool_result = _text(last)
    if request.stream_options is not None:
        ask.include_usage = bool(request.stream_options.include_usage)
    if request.tools:
        _read_tools(ask, request)
    if request.response_format is not None and request.response_format.type != "text":
        ask.wants_json = True
        if request.response_format.json_schema is not None:
            ask.json_schema = bytes(request.response_format.json_schema.schema)
    return ask


def _last_user_text(messages: list[_Message]) -> str:
    for message in reversed(messages):
        if message.role == "user":
            return _text(message)
    return ""


def _text(message: _Message) -> str:
    try:
        return content_text(message.content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"Invalid type for 'messages[].content': {error}") from error


def _read_tools(ask: Ask, request: _Request) -> None:
    functions = [tool.function for tool in request.tools or () if tool.function is not None]
    choice = request.tool_choice
    chosen = choice.function.name if isinstance(choice, _Choice) and choice.function else None
    if chosen is not None:
        functions = [function for function in functions if function.name == chosen]
        if not functions:
            raise Refusal(400, f"Tool choice {chosen!r} was not found in 'tools'.")
    ask.tools = tuple(Tool(name=tool.name, schema=bytes(tool.parameters)) for tool in functions)
    ask.calls = calls_allowed(
        len(ask.tools),
        has_named=chosen is not None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )
