"""Bedrock's Converse: one form for every model, strict in its members; usage ends a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

import msgspec

from loadtests.simulator.answers import BLOCKED, REFUSAL, Answer, Tokens
from loadtests.simulator.ask import Ask, Refusal, Tool, given, offer, tokens_of
from loadtests.simulator.cloud import event_stream
from loadtests.simulator.cloud.bedrock import AwsFace
from loadtests.simulator.cloud.sigv4 import refused
from loadtests.simulator.dialects.base import Stream, argument_pieces, encode
from loadtests.simulator.exchange import Exchange

PATH: Final = re.compile(r"/model/([^/]+)/(converse|converse-stream)")
STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    BLOCKED: "guardrail_intervened",
    REFUSAL: "content_filtered",
}
SIGNATURE: Final = "Y29udmVyc2Utc2lnbmF0dXJl"
NULL: Final = msgspec.Raw(b"null")


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A structure of the service, which takes no member that it does not know."""


class _Source(_Strict):
    bytes: str


class _Image(_Strict):
    format: Literal["png", "jpeg", "gif", "webp"]
    source: _Source


class _Document(_Strict):
    format: Literal["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"]
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9\s()\[\]-]{1,200}$")]
    source: _Source


class _ToolUse(_Strict):
    toolUseId: str
    name: str
    input: dict[str, Any]


class _CachePoint(_Strict):
    type: Literal["default"]
    ttl: Literal["5m", "1h"] = "5m"


class _ReasoningText(_Strict):
    text: str
    signature: str = ""


class _Reasoning(_Strict):
    reasoningText: _ReasoningText | None = None
    redactedContent: str | None = None


class _Block(_Strict):
    text: str | None = None
    image: _Image | None = None
    document: _Document | None = None
    toolUse: _ToolUse | None = None
    toolResult: _ToolResult | None = None
    reasoningContent: _Reasoning | None = None
    cachePoint: _CachePoint | None = None


class _ToolResult(_Strict):
    toolUseId: str
    content: list[_Block]
    status: Literal["success", "error"] = "success"


class _Message(_Strict):
    role: Literal["user", "assistant"]
    content: Annotated[list[_Block], msgspec.Meta(min_length=1)]


class _Inference(_Strict):
    maxTokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    topP: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    stopSequences: list[Annotated[str, msgspec.Meta(min_length=1)]] = []


class _Schema(_Strict):
    json: msgspec.Raw


class _ToolSpec(_Strict):
    name: Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    inputSchema: _Schema
    description: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    strict: bool | None = None


class _Tool(_Strict):
    toolSpec: _ToolSpec | None = None
    cachePoint: _CachePoint | None = None


class _Named(_Strict):
    name: str


class _Nothing(_Strict):
    pass


class _Choice(_Strict):
    auto: _Nothing | None = None
    any: _Nothing | None = None
    tool: _Named | None = None


class _ToolConfig(_Strict):
    tools: Annotated[list[_Tool], msgspec.Meta(min_length=1)]
    toolChoice: _Choice | None = None


class _Request(_Strict):
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    system: list[_Block] = []
    inferenceConfig: _Inference | None = None
    toolConfig: _ToolConfig | None = None
    additionalModelRequestFields: dict[str, Any] | None = None
    requestMetadata: dict[str, str] | None = None
    serviceTier: dict[str, str] | None = None
    outputConfig: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_Request)


class ConverseDialect(AwsFace):
    """`POST /model/{modelId}/converse` and `/converse-stream`, for any model."""

    name = "bedrock-converse"

    def read(self, exchange: Exchange) -> Ask:
        found = PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        try:
            request = _decoder.decode(exchange.body)
        except msgspec.DecodeError as error:
            raise refused(400, "ValidationException", f"Malformed request: {error}") from error
        return _ask(request, unquote(found[1]), found[2] == "converse-stream", exchange.body)

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        content: list[dict[str, Any]] = []
        if answer.thinking:
            thought = {"text": answer.thinking, "signature": SIGNATURE}
            content.append({"reasoningContent": {"reasoningText": thought}})
        if answer.speaks:
            content.append({"text": answer.text})
        content += [
            {
                "toolUse": {
                    "toolUseId": call.id("tooluse_"),
                    "name": call.name,
                    "input": _input(call.arguments),
                }
            }
            for call in answer.calls
        ]
        body: dict[str, Any] = {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": STOP_REASONS.get(answer.finish, answer.finish),
            "metrics": {"latencyMs": 100},
        }
        if answer.usage is not None:
            body["usage"] = answer.usage.stated(_usage(answer.usage))
            body = answer.usage.around(body)
        return encode(body)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        frames = [_event("messageStart", {"role": "assistant"})]
        index = 0
        if answer.thinking:
            frames += [
                _delta(index, {"reasoningContent": {"text": answer.thinking}}),
                _delta(index, {"reasoningContent": {"signature": SIGNATURE}}),
                _stop(index),
            ]
            index += 1
        text_index = index
        if answer.speaks:  # no start: only a call has one
            frames += [_delta(index, {"text": piece}) for piece in answer.deltas]
        text_end = len(frames)
        if answer.speaks:
            frames.append(_stop(index))
            index += 1
        for call in answer.calls:
            use = {"toolUseId": call.id("tooluse_"), "name": call.name}
            start = {"contentBlockIndex": index, "start": {"toolUse": use}}
            frames.append(_event("contentBlockStart", start))
            frames += [
                _delta(index, {"toolUse": {"input": piece}})
                for piece in argument_pieces(call.arguments)
            ]
            frames.append(_stop(index))
            index += 1
        if is_finished:
            reason = STOP_REASONS.get(answer.finish, answer.finish)
            frames.append(_event("messageStop", {"stopReason": reason}))
            if answer.usage is not None:
                usage = answer.usage.stated(_usage(answer.usage))
                metadata = {"usage": usage, "metrics": {"latencyMs": 100}}
                frames.append(_event("metadata", answer.usage.around(metadata)))
        more = _delta(text_index, {"text": "more "})
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)


def _ask(request: _Request, model: str, is_stream: bool, body: bytes) -> Ask:
    blocks = next((one.content for one in reversed(request.messages) if one.role == "user"), [])
    caches = b'"cachePoint"' in body
    inference = request.inferenceConfig or _Inference()
    more = request.additionalModelRequestFields or {}
    thinks = "thinking" in more
    ask = Ask(
        model=model,
        stream=is_stream,
        text=" ".join(block.text for block in blocks if block.text),
        input_tokens=tokens_of(len(body)),
        max_tokens=inference.maxTokens,
        reads_cache=caches,
        writes_cache=caches,
        shows_reasoning=thinks,
        reasoning_tokens=64 * thinks,
        sim=None if "sim" not in more else given(msgspec.Raw(encode(more["sim"]))),
    )
    for block in blocks:
        if block.toolResult is not None:
            ask.tool_result = " ".join(one.text for one in block.toolResult.content if one.text)
    if request.toolConfig is not None:
        _offer(ask, request.toolConfig)
    elif b'"toolUse"' in body or b'"toolResult"' in body:
        words = "The toolConfig field must be defined when using toolUse and toolResult blocks."
        raise refused(400, "ValidationException", words)
    return ask


def _offer(ask: Ask, config: _ToolConfig) -> None:
    specs: Iterable[_ToolSpec] = (one.toolSpec for one in config.tools if one.toolSpec is not None)
    choice = config.toolChoice
    chosen = choice.tool.name if choice is not None and choice.tool is not None else None
    try:
        offer(
            ask,
            (Tool(name=one.name, schema=bytes(one.inputSchema.json)) for one in specs),
            chosen=chosen,
        )
    except Refusal as refusal:
        raise refused(400, "ValidationException", refusal.message) from refusal


def _usage(tokens: Tokens) -> dict[str, int]:
    fresh = max(0, tokens.input - tokens.cached - tokens.cache_write)
    return {
        "inputTokens": fresh,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input + tokens.output,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": tokens.cache_write,
    }


def _input(arguments: str) -> object:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}


def _event(kind: str, members: dict[str, Any]) -> bytes:
    """An event, padded to hide the length of its text."""
    padding = "abcdefghijklmnop"[: len(str(members)) % 16]
    return event_stream.event(kind, encode({**members, "p": padding}))


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def _stop(index: int) -> bytes:
    return _event("contentBlockStop", {"contentBlockIndex": index})
