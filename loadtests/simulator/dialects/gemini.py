"""The native-content wire: candidates, thoughts counted apart, and usage on every chunk.

A stream has no terminator of its own: its last chunk carries `finishReason`. Without `alt=sse`
it is one JSON array instead of server-sent events. A function call always comes whole.
"""

from __future__ import annotations

from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec

from loadtests.simulator.ask import (
    Ask,
    Refusal,
    Tool,
    content_of,
    decoder_of,
    given,
    many,
    offer,
    shape,
    size_of,
    tokens_of,
)
from loadtests.simulator.completions import BLOCKED, REFUSAL, Completion, Tokens
from loadtests.simulator.dialects.base import Dialect, Stream, decode, encode, parsed
from loadtests.simulator.exchange import Exchange

_FunctionResponse = shape(name=str, response=msgspec.Raw)
_Declaration = shape(
    name=str,
    parameters=msgspec.Raw,
    parametersJsonSchema=msgspec.Raw,
    parameters_json_schema=msgspec.Raw,  # as the official library spells it
)
_Calling = shape(mode=str | None, allowedFunctionNames=list[str] | None)
_Generation = shape(
    maxOutputTokens=int | None,
    thinkingConfig=shape(thinkingBudget=int | None, includeThoughts=bool | None) | None,
    responseMimeType=str | None,
    responseSchema=msgspec.Raw,
    responseJsonSchema=msgspec.Raw,
)
_Request = shape(
    contents=many(shape(role=Literal["user", "model", "function"] | None, parts=msgspec.Raw)),
    tools=many(shape(functionDeclarations=many(_Declaration) | None)) | None,
    toolConfig=shape(functionCallingConfig=_Calling | None) | None,
    generationConfig=_Generation | None,
    cachedContent=str | None,
    sim=msgspec.Raw,
)
_decoder = decoder_of(_Request)
_parts = decoder_of(many(shape(text=str | None, functionResponse=_FunctionResponse | None)) | None)


def _read_last_turn(ask: Ask, contents: list[Any]) -> None:
    for turn in reversed(contents):
        if turn.role == "model":
            continue
        parts = _parts.decode(turn.parts) or []
        ask.text = " ".join(part.text for part in parts if part.text)
        results = [part.functionResponse for part in parts if part.functionResponse is not None]
        if results:
            ask.tool_result = bytes(results[-1].response).decode()
        return


def _read_generation(ask: Ask, config: Any) -> None:
    ask.max_tokens = config.maxOutputTokens
    thinking = config.thinkingConfig
    if thinking is not None and thinking.thinkingBudget != 0:
        ask.reasoning_tokens = min(max(thinking.thinkingBudget or 64, 1), 64)
        ask.shows_reasoning = bool(thinking.includeThoughts)
    if config.responseMimeType == "application/json":
        ask.wants_json = True
        ask.json_schema = _either(config.responseSchema, config.responseJsonSchema)


def _read_tools(ask: Ask, request: Any) -> None:
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


PREFIX: Final = b"/v1beta/models/"
PLAIN: Final = b":generateContent"
STREAMED: Final = b":streamGenerateContent"
FINISH_REASONS: Final = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    BLOCKED: "SAFETY",
    REFUSAL: "SAFETY",
}
STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
SIGNATURE: Final = "c2ltdWxhdGVkLXRob3VnaHQ="


class GeminiDialect(Dialect):
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""

    name = "native"
    stream_type = b"text/event-stream"
    uses_crlf = True

    def authenticate(self, exchange: Exchange) -> str:
        key = exchange.header(b"x-goog-api-key").strip()
        if not key:
            raise Refusal(401, "Request is missing an API key in the x-goog-api-key header.")
        return key.decode("latin-1")

    def read(self, exchange: Exchange) -> Ask:
        model, _, action = exchange.path.rpartition("/")[2].rpartition(":")
        is_stream = action == "streamGenerateContent"
        request = decode(_decoder, exchange.body)
        if not request.contents:
            raise Refusal(400, "* GenerateContentRequest.contents: contents is not specified")
        ask = Ask(
            model=unquote(model),
            stream=is_stream,
            as_array=is_stream and exchange.parameters().get("alt") != "sse",
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

    def plain(self, ask: Ask, response: Completion) -> bytes:
        if response.is_withheld:
            return encode(_blocked(ask, response))
        parts = [*_thought(response)]
        if response.speaks:
            parts.append(_signed({"text": response.text}, response))
        parts.extend(_calls(response))
        return encode(
            _chunk(ask, response, parts, finish=response.finish, spoken=len(response.text))
        )

    def stream(self, ask: Ask, response: Completion) -> Stream:
        chunks: list[dict[str, Any]] = []
        if response.is_withheld:
            return _stream(ask, [_blocked(ask, response)], 0, {})
        if response.thinking:
            chunks.append(_chunk(ask, response, _thought(response), finish=None, spoken=0))
        spoken = 0
        for piece in response.deltas:
            spoken += len(piece)
            chunks.append(_chunk(ask, response, [{"text": piece}], finish=None, spoken=spoken))
        text_end = len(chunks)
        chunks.extend(
            _chunk(ask, response, [part], finish=None, spoken=spoken) for part in _calls(response)
        )
        # the last word and the finish come in chunks of their own
        last = [_signed({"text": ""}, response)]
        chunks.append(_chunk(ask, response, last, finish=response.finish, spoken=spoken))
        more = _chunk(ask, response, [{"text": "more "}], finish=None, spoken=spoken)
        return _stream(ask, chunks, text_end, more)

    def error(self, status: int, message: str) -> bytes:
        return encode({"error": _error(status, message)})

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        error = self.error(503, message)
        return [_array_frame(index, error), b"]"] if ask.as_array else [_event_frame(0, error)]


def _stream(ask: Ask, chunks: list[dict[str, Any]], text_end: int, more: dict[str, Any]) -> Stream:
    frame = _array_frame if ask.as_array else _event_frame
    frames = [frame(index, encode(chunk)) for index, chunk in enumerate(chunks)]
    if ask.as_array:
        frames.append(b"]")
    again = encode(more)
    return Stream(frames=frames, text_end=text_end, more=lambda index: frame(index, again))


def _event_frame(_: int, data: bytes) -> bytes:
    return b"data: %b\n\n" % data


def _array_frame(index: int, data: bytes) -> bytes:
    return (b",\n" if index else b"[") + data


def _error(status: int, message: str) -> dict[str, Any]:
    fallback = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    return {"code": status, "message": message, "status": STATUSES.get(status, fallback)}


def _thought(response: Completion) -> list[dict[str, Any]]:
    return [{"text": response.thinking, "thought": True}] if response.thinking else []


def _signed(part: dict[str, Any], response: Completion) -> dict[str, Any]:
    """The last part of a text that was thought about carries the signature of the thoughts."""
    if not response.thinking or response.calls:
        return part
    return {**part, "thoughtSignature": SIGNATURE}


def _blocked(ask: Ask, response: Completion) -> dict[str, Any]:
    """A prompt that is not answered: no candidates, and only the prompt is counted."""
    chunk: dict[str, Any] = {
        "promptFeedback": {
            "blockReason": "SAFETY",
            "safetyRatings": [
                {
                    "category": "HARM_CATEGORY_DANGEROUS_CONTENT",
                    "probability": "HIGH",
                    "blocked": True,
                }
            ],
        }
    }
    if response.usage is not None:
        usage = _usage(response.usage, spoken=0, is_whole=True)
        if not response.usage.output:
            del usage["candidatesTokenCount"]
        chunk["usageMetadata"] = usage
    return chunk | {"modelVersion": ask.model, "responseId": response.id[:22]}


def _calls(response: Completion) -> list[dict[str, Any]]:
    """Function calls as parts; only the first of parallel ones carries the signature."""
    parts: list[dict[str, Any]] = []
    for number, call in enumerate(response.calls):
        result = {"name": call.name, "args": parsed(call.arguments)}
        part: dict[str, Any] = {"functionCall": result}
        if not number:
            part["thoughtSignature"] = SIGNATURE
        parts.append(part)
    return parts


def _chunk(
    ask: Ask, response: Completion, parts: list[dict[str, Any]], *, finish: str | None, spoken: int
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = FINISH_REASONS.get(finish, finish)
    chunk: dict[str, Any] = {"candidates": [candidate]}
    if response.usage is not None:
        is_whole = finish is not None
        chunk["usageMetadata"] = _usage(response.usage, spoken=spoken, is_whole=is_whole)
        if is_whole:  # grounding and the like are the candidate's
            chunk["candidates"] = [response.usage.around(candidate)]
    chunk["modelVersion"] = ask.model
    chunk["responseId"] = response.id[:22]
    return chunk


def _usage(tokens: Tokens, *, spoken: int, is_whole: bool) -> dict[str, Any]:
    """Counts so far: each chunk's replace those before it, the last one's are the totals."""
    total = max(0, tokens.output - tokens.reasoning)
    candidates = total if is_whole else min(total, tokens_of(spoken))
    usage: dict[str, Any] = {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": candidates,
        "totalTokenCount": tokens.input + candidates + tokens.reasoning,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
    }
    if tokens.cached:
        usage["cachedContentTokenCount"] = tokens.cached
    if tokens.reasoning:
        usage["thoughtsTokenCount"] = tokens.reasoning
    return tokens.stated(usage) if is_whole else usage
