"""How a request on the messages wire reads. Its answers are in `messages.py`."""

from __future__ import annotations

from typing import Literal

import msgspec

from loadtests.simulator.ask import (
    NULL,
    Ask,
    Refusal,
    Tool,
    content_of,
    content_parts,
    content_text,
    given,
    offer,
    size_of,
    tokens_of,
)
from loadtests.simulator.dialects.base import decode


class _Message(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: msgspec.Raw


class _Tool(msgspec.Struct):
    name: str
    type: str | None = None
    input_schema: msgspec.Raw = NULL


class _Choice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class _Format(msgspec.Struct):
    type: str
    schema: msgspec.Raw = NULL


class _OutputConfig(msgspec.Struct):
    format: _Format | None = None


class _Request(msgspec.Struct):
    model: str
    max_tokens: int
    messages: list[_Message]
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    sim: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Request)


def read(body: bytes) -> Ask:
    """The request in the common shape; raises Refusal."""
    request = decode(_decoder, body)
    if not request.messages:
        raise Refusal(400, "messages: at least one message is required")
    if request.max_tokens < 1:
        raise Refusal(400, "max_tokens: must be greater than or equal to 1")
    caches = b'"cache_control"' in body
    ask = Ask(
        model=request.model,
        stream=bool(request.stream),
        input_tokens=tokens_of(sum(size_of(turn.content) for turn in request.messages)),
        max_tokens=request.max_tokens,
        reads_cache=caches,
        writes_cache=caches,
        sim=given(request.sim),
    )
    with content_of("messages: content"):
        _read_last_turn(ask, request.messages)
    if request.thinking is not None and request.thinking.type != "disabled":
        ask.shows_reasoning = True
        ask.reasoning_tokens = min(request.thinking.budget_tokens or 64, 64)
    if request.output_config is not None and request.output_config.format is not None:
        ask.wants_json = True
        ask.json_schema = bytes(request.output_config.format.schema)
    if request.tools:
        _read_tools(ask, request)
    return ask


def _read_last_turn(ask: Ask, messages: list[_Message]) -> None:
    """The last user message: its text, and a tool's result when it carries one."""
    turn = next((turn for turn in reversed(messages) if turn.role == "user"), None)
    if turn is None:
        return
    parts = content_parts(turn.content)
    ask.text = " ".join(part.text for part in parts if part.text)
    for part in parts:
        if part.type == "tool_result":
            ask.tool_result = content_text(part.content)


def _read_tools(ask: Ask, request: _Request) -> None:
    choice = request.tool_choice
    # a tool with a type of its own runs at the upstream: not ours to call
    tools = [tool for tool in request.tools or () if tool.type in (None, "custom")]
    offer(
        ask,
        (Tool(name=tool.name, schema=bytes(tool.input_schema)) for tool in tools),
        chosen=choice.name if choice is not None and choice.type == "tool" else None,
        is_forbidden=choice is not None and choice.type == "none",
        in_parallel=choice is None or not choice.disable_parallel_tool_use,
    )
