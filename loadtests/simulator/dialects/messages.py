"""The messages wire: content blocks, and usage that starts in one event and ends in another.

`input_tokens` here leaves the cache out, both ways; the counts of `message_delta` are totals
that replace those of `message_start`, never additions to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from loadtests.simulator.ask import (
    Ask,
    Refusal,
    Tool,
    content_of,
    content_parts,
    content_text,
    decoder_of,
    given,
    many,
    offer,
    shape,
    size_of,
    tokens_of,
)
from loadtests.simulator.completions import BLOCKED, REFUSAL, Completion, Tokens
from loadtests.simulator.dialects.base import (
    Dialect,
    Stream,
    argument_pieces,
    bearer,
    decode,
    encode,
    named,
    parsed,
)
from loadtests.simulator.directives import TEXT_MARK
from loadtests.simulator.exchange import Exchange

_Choice = shape(
    type=Literal["auto", "any", "tool", "none"],
    name=str | None,
    disable_parallel_tool_use=bool | None,
)
_Format = shape(type=str, schema=msgspec.Raw)
_Request = shape(
    model=str,
    max_tokens=int,
    messages=many(shape(role=Literal["user", "assistant", "system"], content=msgspec.Raw)),
    stream=bool | None,
    tools=many(shape(name=str, type=str | None, input_schema=msgspec.Raw)) | None,
    tool_choice=_Choice | None,
    thinking=shape(type=str, budget_tokens=int | None) | None,
    output_config=shape(format=_Format | None) | None,
    sim=msgspec.Raw,
)
_decoder = decoder_of(_Request)


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


def _read_last_turn(ask: Ask, messages: list[Any]) -> None:
    """The last user message: its text, and a tool's result when it carries one."""
    turn = next((turn for turn in reversed(messages) if turn.role == "user"), None)
    if turn is None:
        return
    parts = content_parts(turn.content)
    ask.text = " ".join(part.text for part in parts if part.text)
    for part in parts:
        if part.type == "tool_result":
            ask.tool_result = content_text(part.content)
        elif part.text and TEXT_MARK in part.text:
            ask.tool_result = None  # what the user says after a result is a new request


def _read_tools(ask: Ask, request: Any) -> None:
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
        """The key of the header of this protocol; some providers take a bearer's."""
        key = exchange.header(b"x-api-key").strip()
        if not key and not exchange.header(b"authorization"):
            raise Refusal(401, "x-api-key header is required")
        return key.decode("latin-1") or bearer(exchange)

    def read(self, exchange: Exchange) -> Ask:
        if not exchange.header(b"anthropic-version"):
            raise Refusal(400, "anthropic-version: header is required")
        return read_messages(exchange.body)

    def plain(self, ask: Ask, response: Completion) -> bytes:
        content: list[dict[str, Any]] = []
        if response.thinking:
            content.append(_thinking(response.thinking, SIGNATURE))
        if response.speaks:
            content.append({"type": "text", "text": response.text})
        content.extend(
            {
                "type": "tool_use",
                "id": call.id("toolu_"),
                "name": call.name,
                "input": parsed(call.arguments),
            }
            for call in response.calls
        )
        message = _message(ask, response)
        message["content"] = content
        message |= _stopped(response)
        if response.usage is not None:
            usage = _usage(response.usage, output=response.usage.output)
            message["usage"] = response.usage.stated(usage)
            message = response.usage.around(message)
        return encode(message)

    def stream(self, ask: Ask, response: Completion) -> Stream:
        message = _message(ask, response)
        if response.usage is not None:
            message["usage"] = _usage(response.usage, output=min(1, response.usage.output))
        frames = [named("message_start", {"message": message})]
        text_end, text_index = len(frames), 0
        for index, (block, deltas) in enumerate(_blocks(response)):
            frames.append(_event("content_block_start", index, content_block=block))
            if block["type"] == "text":
                frames.append(named("ping", {}))
                text_index = index
            frames += [_event("content_block_delta", index, delta=delta) for delta in deltas]
            if block["type"] != "tool_use":
                text_end = len(frames) + (block["type"] != "text")
            frames.append(_event("content_block_stop", index))
        last: dict[str, Any] = {"delta": _stopped(response)}
        if response.usage is not None:
            totals = _totals(response.usage, output=response.usage.output)
            last["usage"] = response.usage.stated(totals)
            last["delta"] = response.usage.around(last["delta"])
        frames.append(named("message_delta", last))
        frames.append(named("message_stop", {}))
        delta = {"type": "text_delta", "text": "more "}
        more = _event("content_block_delta", text_index, delta=delta)
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)

    def error(self, status: int, message: str) -> bytes:
        fallback = "api_error" if status >= 500 else "invalid_request_error"
        kind = ERROR_TYPES.get(status, fallback)
        return encode({"type": "error", "error": {"type": kind, "message": message}})

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        return [b"event: error\ndata: %b\n\n" % self.error(529, message)]


def _message(ask: Ask, response: Completion) -> dict[str, Any]:
    return {
        "id": f"msg_{response.id[:24]}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stopped(response: Completion) -> dict[str, Any]:
    """The members that state why the message ended."""
    if response.stop_sequence is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": response.stop_sequence}
    reason = STOP_REASONS.get(response.finish, response.finish)
    members: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
    if reason == "refusal":
        members["stop_details"] = {"type": "refusal", "category": None, "explanation": EXPLANATION}
    return members


def _thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _blocks(response: Completion) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The beginnings of the content blocks, and the deltas that follow each."""
    if response.thinking:
        thought = {"type": "thinking_delta", "thinking": response.thinking}
        yield _thinking("", ""), [thought, {"type": "signature_delta", "signature": SIGNATURE}]
    if response.speaks:
        texts = [{"type": "text_delta", "text": piece} for piece in response.deltas]
        yield {"type": "text", "text": ""}, texts
    for call in response.calls:
        use = {"type": "tool_use", "id": call.id("toolu_"), "name": call.name, "input": {}}
        pieces = argument_pieces(call.arguments)
        yield use, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _event(name: str, index: int, **members: Any) -> bytes:
    return named(name, {"index": index, **members})


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
