"""Bedrock: Converse, one form for every model, and invoke, claude's own messages; Amazon's events.

A message of an event stream (`application/vnd.amazon.eventstream`) is its length, the length of
its headers and a checksum of both; headers; payload; and a checksum of all that. Lengths and
checksums (CRC-32) are big-endian, four bytes each. Converse is strict in its members.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote
from zlib import crc32

import msgspec

from loadtests.simulator.ask import (
    Ask,
    Refusal,
    Tool,
    decoder_of,
    given,
    many,
    offer,
    shape,
    tokens_of,
)
from loadtests.simulator.cloud.credentials import refused, signed_by
from loadtests.simulator.completions import BLOCKED, REFUSAL, Completion, Tokens
from loadtests.simulator.dialects.base import Dialect, Stream, argument_pieces, encode
from loadtests.simulator.dialects.messages import MessagesDialect, read_messages
from loadtests.simulator.exchange import Exchange

CONTENT_TYPE: Final = b"application/vnd.amazon.eventstream"
STRING: Final = 7  # the type of a header's value


def stream_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message, whose headers are all strings."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return whole + struct.pack(">I", crc32(whole))


def stream_event(kind: str, payload: bytes, *, sort: str = "event") -> bytes:
    """An event of a kind; of the sort `exception`, what ends a stream that failed as described."""
    content = {":content-type": "application/json", ":message-type": sort}
    return stream_message({f":{sort}-type": kind, **content}, payload)


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(f">B{len(name)}sBH", len(name), name, STRING, len(value)) + value


VERSION: Final = "bedrock-2023-05-31"
INVOKE_PATH: Final = re.compile(r"/model/([^/]+)/(invoke|invoke-with-response-stream)")
EXCEPTIONS: Final = (
    "internalServerException",
    "modelStreamErrorException",
    "modelTimeoutException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
)
_DATA: Final = re.compile(rb"data: (.*)\n")


class AwsFace(Dialect):
    """Who may ask, and how errors look, on every wire of Bedrock."""

    stream_type = CONTENT_TYPE

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def authenticate(self, exchange: Exchange) -> str:
        """The access key, or the bearer's."""
        if exchange.bearer:
            return exchange.bearer
        now = self._clock()
        try:
            return signed_by(exchange, now=now)
        except Refusal as refusal:
            date = b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
            raise Refusal(refusal.status, refusal.message, lines=refusal.lines + date) from None

    def error(self, status: int, message: str) -> bytes:
        return encode({"message": message})

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        """An exception, whose kind may stand before its message."""
        kind, _, words = message.partition(": ")
        if kind not in EXCEPTIONS:
            kind, words = "modelStreamErrorException", message
        return [stream_event(kind, encode({"message": words}), sort="exception")]


class BedrockDialect(AwsFace, MessagesDialect):
    """`POST /model/{modelId}/invoke` and `/invoke-with-response-stream`, for claude."""

    name = "bedrock-invoke"

    def read(self, exchange: Exchange) -> Ask:
        found = INVOKE_PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        return read_messages(
            as_messages(
                exchange.body,
                VERSION,
                ("model", "stream"),
                model=unquote(found[1]),
                stream=found[2] != "invoke",
            )
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        return of_host(super().plain(ask, response), "bdrk")

    def stream(self, ask: Ask, response: Completion) -> Stream:
        stream = super().stream(ask, response)
        frames = [_chunk(of_host(frame, "bdrk"), response) for frame in stream.frames]
        return Stream(
            frames=frames,
            text_end=stream.text_end,
            more=lambda index: _chunk(stream.more(index), response),
        )


def as_messages(
    body: bytes, version: str, refused_members: tuple[str, ...], **more: object
) -> bytes:
    """The body as the messages wire has it, of one as another host wants it; raises Refusal."""
    try:
        members: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        members = None
    if not isinstance(members, dict):
        raise refused(400, "ValidationException", "Malformed input request: not a JSON object")
    if members.pop("anthropic_version", None) != version:
        raise refused(400, "ValidationException", "anthropic_version: Field required")
    for name in refused_members:
        if name in members:
            raise refused(
                400,
                "ValidationException",
                f"Malformed input request: #: extraneous key [{name}] is not permitted, please "
                "reformat your input and try again.",
            )
    members.pop("anthropic_beta", None)
    return encode({**members, **more})


def of_host(body: bytes, host: str) -> bytes:
    """A message, or its start, whose id states where it was made."""
    return body.replace(b'"id":"msg_', b'"id":"msg_%b_' % host.encode(), 1)


def _chunk(frame: bytes, response: Completion) -> bytes:
    """An event of the messages wire as one of Amazon's; the last one reports the invocation."""
    found = _DATA.search(frame)
    assert found is not None, frame
    data = found[1]
    if data == b'{"type":"message_stop"}':
        metrics = {"invocationLatency": 100, "firstByteLatency": 50}
        if response.usage is not None:
            metrics["inputTokenCount"] = response.usage.input
            metrics["outputTokenCount"] = response.usage.output
        data = encode({"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics})
    payload = {"bytes": b64encode(data).decode(), "p": "abcdefghijklmnop"[: len(data) % 16]}
    return stream_event("chunk", encode(payload))


CONVERSE_PATH: Final = re.compile(r"/model/([^/]+)/(converse|converse-stream)")
STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    BLOCKED: "guardrail_intervened",
    REFUSAL: "content_filtered",
}
SIGNATURE: Final = "Y29udmVyc2Utc2lnbmF0dXJl"
# The service takes no member that it does not know.
strict = partial(shape, is_strict=True)
Bounded = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


def _some(item: Any) -> Any:
    """One at least."""
    return Annotated[many(item), msgspec.Meta(min_length=1)]


def _text(pattern: str) -> Any:
    return Annotated[str, msgspec.Meta(pattern=pattern)]


_Source = strict(bytes=str)
_Content = {
    "text": str | None,
    "image": strict(format=Literal["png", "jpeg", "gif", "webp"], source=_Source) | None,
    "document": strict(
        format=Literal["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"],
        name=_text(r"^[A-Za-z0-9\s()\[\]-]{1,200}$"),
        source=_Source,
    )
    | None,
}
_ToolResult = strict(
    toolUseId=str, content=many(strict(**_Content)), status=Literal["success", "error"] | None
)
_CachePoint = strict(type=Literal["default"], ttl=Literal["5m", "1h"] | None) | None
_Block = strict(
    **_Content,
    toolUse=strict(toolUseId=str, name=str, input=dict[str, Any]) | None,
    toolResult=_ToolResult | None,
    reasoningContent=strict(
        reasoningText=strict(text=str, signature=str | None) | None, redactedContent=str | None
    )
    | None,
    cachePoint=_CachePoint,
)
_ToolSpec = strict(
    name=_text(r"^[a-zA-Z0-9_-]{1,64}$"),
    inputSchema=strict(json=msgspec.Raw),
    description=Annotated[str, msgspec.Meta(min_length=1)] | None,
    strict=bool | None,
)
_ToolConfig = strict(
    tools=_some(strict(toolSpec=_ToolSpec | None, cachePoint=_CachePoint)),
    toolChoice=strict(auto=strict() | None, any=strict() | None, tool=strict(name=str) | None)
    | None,
)
_Request = strict(
    messages=_some(strict(role=Literal["user", "assistant"], content=_some(_Block))),
    system=many(_Block) | None,
    inferenceConfig=strict(
        maxTokens=Annotated[int, msgspec.Meta(ge=1)] | None,
        temperature=Bounded,
        topP=Bounded,
        stopSequences=list[Annotated[str, msgspec.Meta(min_length=1)]] | None,
    )
    | None,
    toolConfig=_ToolConfig | None,
    additionalModelRequestFields=dict[str, Any] | None,
    requestMetadata=dict[str, str] | None,
    serviceTier=dict[str, str] | None,
    outputConfig=dict[str, Any] | None,
)
_decoder = decoder_of(_Request)


class ConverseDialect(AwsFace):
    """`POST /model/{modelId}/converse` and `/converse-stream`, for any model."""

    name = "bedrock-converse"

    def read(self, exchange: Exchange) -> Ask:
        found = CONVERSE_PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        try:
            request = _decoder.decode(exchange.body)
        except msgspec.DecodeError as error:
            raise refused(400, "ValidationException", f"Malformed request: {error}") from error
        return _ask(request, unquote(found[1]), found[2] == "converse-stream", exchange.body)

    def plain(self, ask: Ask, response: Completion) -> bytes:
        content: list[dict[str, Any]] = []
        if response.thinking:
            thought = {"text": response.thinking, "signature": SIGNATURE}
            content.append({"reasoningContent": {"reasoningText": thought}})
        if response.speaks:
            content.append({"text": response.text})
        content += [
            {
                "toolUse": {
                    "toolUseId": call.id("tooluse_"),
                    "name": call.name,
                    "input": _input(call.arguments),
                }
            }
            for call in response.calls
        ]
        body: dict[str, Any] = {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": STOP_REASONS.get(response.finish, response.finish),
            "metrics": {"latencyMs": 100},
        }
        if response.usage is not None:
            body["usage"] = response.usage.stated(_usage(response.usage))
            body = response.usage.around(body)
        return encode(body)

    def stream(self, ask: Ask, response: Completion) -> Stream:
        frames = [_event("messageStart", {"role": "assistant"})]
        text_index, text_end = 0, len(frames)
        for index, (start, deltas) in enumerate(_blocks(response)):
            place = {"contentBlockIndex": index}
            if start is not None:
                frames.append(_event("contentBlockStart", {**place, "start": start}))
            frames += [_event("contentBlockDelta", {**place, "delta": one}) for one in deltas]
            if start is None:
                text_index, text_end = index, len(frames)
            frames.append(_event("contentBlockStop", place))
        if not response.speaks and response.thinking:
            text_index, text_end = 1, text_end + 1
        reason = STOP_REASONS.get(response.finish, response.finish)
        frames.append(_event("messageStop", {"stopReason": reason}))
        if response.usage is not None:
            usage = response.usage.stated(_usage(response.usage))
            metadata = {"usage": usage, "metrics": {"latencyMs": 100}}
            frames.append(_event("metadata", response.usage.around(metadata)))
        further = {"contentBlockIndex": text_index, "delta": {"text": "more "}}
        more = _event("contentBlockDelta", further)
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)


def _ask(request: Any, model: str, is_stream: bool, body: bytes) -> Ask:
    blocks: list[Any] = next(
        (one.content for one in reversed(request.messages) if one.role == "user"), []
    )
    caches = b'"cachePoint"' in body
    more = request.additionalModelRequestFields or {}
    thinks = "thinking" in more
    ask = Ask(
        model=model,
        stream=is_stream,
        text=" ".join(block.text for block in blocks if block.text),
        input_tokens=tokens_of(len(body)),
        max_tokens=request.inferenceConfig and request.inferenceConfig.maxTokens,
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


def _offer(ask: Ask, config: Any) -> None:
    specs = (one.toolSpec for one in config.tools if one.toolSpec is not None)
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
    return stream_event(kind, encode({**members, "p": padding}))


def _blocks(response: Completion) -> Iterator[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
    """The content blocks: the start, which only a call has, and the deltas."""
    if response.thinking:
        thoughts = {"text": response.thinking}, {"signature": SIGNATURE}
        yield None, [{"reasoningContent": one} for one in thoughts]
    if response.speaks:
        yield None, [{"text": piece} for piece in response.deltas]
    for call in response.calls:
        use = {"toolUseId": call.id("tooluse_"), "name": call.name}
        pieces = argument_pieces(call.arguments)
        yield {"toolUse": use}, [{"toolUse": {"input": piece}} for piece in pieces]
