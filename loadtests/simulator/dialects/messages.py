"""The messages wire: content blocks, and usage that starts in one event and ends in another.

`input_tokens` here leaves the cache out, both ways; the counts of `message_delta` are totals
that replace those of `message_start`, never additions to them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from loadtests.simulator.answers import BLOCKED, REFUSAL, Answer, Tokens
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
from loadtests.simulator.dialects.base import (
    Dialect,
    Stream,
    argument_pieces,
    decode,
    encode,
    named,
)
from loadtests.simulator.exchange import Exchange


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
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


def read_messages(body: bytes) -> Ask:
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


STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    BLOCKED: "refusal",
    REFUSAL: "refusal",
}
ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
EXPLANATION: Final = "The simulated provider declines this request."
SIGNATURE: Final = "c2ltdWxhdGVkLXNpZ25hdHVyZQ=="  # opaque to clients, who must send it back


class MessagesDialect(Dialect):
    """`POST /v1/messages`."""

    name = "messages"

    def authenticate(self, exchange: Exchange) -> str:
        key = exchange.header(b"x-api-key").strip()
        if not key:
            raise Refusal(401, "x-api-key header is required")
        return key.decode("latin-1")

    def read(self, exchange: Exchange) -> Ask:
        if not exchange.header(b"anthropic-version"):
            raise Refusal(400, "anthropic-version: header is required")
        return read_messages(exchange.body)

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        content: list[dict[str, Any]] = []
        if answer.thinking:
            content.append(_thinking(answer.thinking, SIGNATURE))
        if answer.speaks:
            content.append({"type": "text", "text": answer.text})
        content.extend(
            {
                "type": "tool_use",
                "id": call.id("toolu_"),
                "name": call.name,
                "input": _input(call.arguments),
            }
            for call in answer.calls
        )
        message = _message(ask, answer)
        message["content"] = content
        message |= _stopped(answer)
        if answer.usage is not None:
            usage = _usage(answer.usage, output=answer.usage.output)
            message["usage"] = answer.usage.stated(usage)
            message = answer.usage.around(message)
        return encode(message)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        message = _message(ask, answer)
        if answer.usage is not None:
            message["usage"] = _usage(answer.usage, output=min(1, answer.usage.output))
        frames = [named("message_start", {"message": message})]
        index = 0
        if answer.thinking:
            frames.append(_start(index, _thinking("", "")))
            frames.append(_delta(index, {"type": "thinking_delta", "thinking": answer.thinking}))
            frames.append(_delta(index, {"type": "signature_delta", "signature": SIGNATURE}))
            frames.append(_stop(index))
            index += 1
        frames_before_text = len(frames)
        if answer.speaks:
            frames.append(_start(index, {"type": "text", "text": ""}))
            frames.append(named("ping", {}))
            frames.extend(
                _delta(index, {"type": "text_delta", "text": piece}) for piece in answer.deltas
            )
        text_end = len(frames)
        text_index = index
        if text_end > frames_before_text:
            frames.append(_stop(index))
            index += 1
        for call in answer.calls:
            use = {"type": "tool_use", "id": call.id("toolu_"), "name": call.name, "input": {}}
            frames.append(_start(index, use))
            frames.extend(
                _delta(index, {"type": "input_json_delta", "partial_json": piece})
                for piece in argument_pieces(call.arguments)
            )
            frames.append(_stop(index))
            index += 1
        last: dict[str, Any] = {"delta": _stopped(answer)}
        if answer.usage is not None:
            totals = _totals(answer.usage, output=answer.usage.output)
            last["usage"] = answer.usage.stated(totals)
            last["delta"] = answer.usage.around(last["delta"])
        frames.append(named("message_delta", last))
        if is_finished:
            frames.append(named("message_stop", {}))
        more = _delta(text_index, {"type": "text_delta", "text": "more "})
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)

    def error(self, status: int, message: str) -> bytes:
        fallback = "api_error" if status >= 500 else "invalid_request_error"
        kind = ERROR_TYPES.get(status, fallback)
        return encode({"type": "error", "error": {"type": kind, "message": message}})

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        return [b"event: error\ndata: %b\n\n" % self.error(529, message)]


def _message(ask: Ask, answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id[:24]}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stopped(answer: Answer) -> dict[str, Any]:
    """The members that state why the message ended."""
    if answer.stop_sequence is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop_sequence}
    reason = STOP_REASONS.get(answer.finish, answer.finish)
    members: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    if reason == "refusal":
        members["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": EXPLANATION,
        }
    return members


def _thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _input(arguments: str) -> object:
    """Arguments as the object this wire wants; text that is not JSON stays text."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _start(index: int, block: dict[str, Any]) -> bytes:
    return named("content_block_start", {"index": index, "content_block": block})


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return named("content_block_delta", {"index": index, "delta": delta})


def _stop(index: int) -> bytes:
    return named("content_block_stop", {"index": index})


def _totals(tokens: Tokens, *, output: int) -> dict[str, Any]:
    return {
        "input_tokens": max(0, tokens.input - tokens.cached - tokens.cache_write),
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": output,
    }


def _usage(tokens: Tokens, *, output: int) -> dict[str, Any]:
    return {
        **_totals(tokens, output=output),
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "service_tier": "standard",
    }
