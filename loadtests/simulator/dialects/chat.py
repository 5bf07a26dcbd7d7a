"""The chat-completions wire: how answers look.

The usage chunk (`choices: []`) goes out only when asked for; then every other chunk has
`usage: null`, as the real upstreams do.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from loadtests.simulator.answers import Answer, Tokens
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
from loadtests.simulator.dialects.base import (
    Dialect,
    Stream,
    argument_pieces,
    decode,
    encode,
)
from loadtests.simulator.exchange import Exchange

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


def read_chat(body: bytes) -> Ask:
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


DONE: Final = b"data: [DONE]\n\n"
# Every chunk begins and ends alike; only the index, the delta and the finish between are new.
CHUNK: Final = b'%b,"choices":[{"index":%d,"delta":%b,"logprobs":null,"finish_reason":%b}]%b'


class ChatDialect(Dialect):
    """`POST /v1/chat/completions`."""

    name = "chat"

    def read(self, exchange: Exchange) -> Ask:
        return read_chat(exchange.body)

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if answer.is_declined or _is_silent(answer) else answer.text,
            "refusal": answer.text if answer.is_declined else None,
            "annotations": [],
        }
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                _tool_call(call.id("call_"), call.name, call.arguments) for call in answer.calls
            ]
        whole: dict[str, Any] = _head(ask, answer, "chat.completion")
        whole["choices"] = [
            {
                "index": index,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish(answer),
            }
            for index in range(ask.choices)
        ]
        if answer.usage is not None:
            whole["usage"] = _usage(answer.usage)
            whole = answer.usage.around(whole)
        return encode(whole)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        start = b"data: " + encode(_head(ask, answer, "chat.completion.chunk"))[:-1]
        end = b',"usage":null}\n\n' if ask.include_usage else b"}\n\n"
        many = range(ask.choices)
        frames: list[bytes] = []

        def put(delta: dict[str, Any], finish: str | None = None) -> None:
            middle = encode(delta), encode(finish)
            frames.extend(CHUNK % (start, index, *middle, end) for index in many)

        opening = None if _is_silent(answer) else ""
        put({"role": "assistant", "content": opening, "refusal": None})
        if answer.thinking:
            put({"reasoning_content": answer.thinking})
        member = b"refusal" if answer.is_declined else b"content"
        for piece in answer.deltas:  # the hot one: no dictionary for each
            delta = b'{"%b":%b}' % (member, encode(piece))
            frames.extend(CHUNK % (start, index, delta, b"null", end) for index in many)
        text_end = len(frames)
        for number, call in enumerate(answer.calls):
            head = {"index": number, **_tool_call(call.id("call_"), call.name, "")}
            put({"tool_calls": [head]})
            for arguments in argument_pieces(call.arguments):
                put({"tool_calls": [{"index": number, "function": {"arguments": arguments}}]})
        put({}, _finish(answer))
        if ask.include_usage and answer.usage is not None:
            last = answer.usage.around({"choices": [], "usage": _usage(answer.usage)})
            usage = encode(last)[1:]
            frames.append(start + b"," + usage + b"\n\n")
        if is_finished:
            frames.append(DONE)
        more = CHUNK % (start, 0, encode({"content": "more "}), b"null", end)
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)


def _is_silent(answer: Answer) -> bool:
    """Tools are called, and there is no text."""
    return bool(answer.calls) and not answer.text


def _finish(answer: Answer) -> str:
    """A refusal in the model's own words is an ordinary stop on this wire."""
    return "stop" if answer.is_declined else answer.finish


def _head(ask: Ask, answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id[:29]}",
        "object": kind,
        "created": answer.created,
        "model": ask.model,
        "service_tier": "default",
        "system_fingerprint": f"fp_{answer.id[-10:]}",
    }


def _tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    details = {"cached_tokens": tokens.cached, "audio_tokens": 0}
    if tokens.cache_write:
        details["cache_write_tokens"] = tokens.cache_write
    usage = {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    return tokens.stated(usage)
