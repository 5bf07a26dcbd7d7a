"""What a client was told, in no protocol any more, and a whole answer read as one."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class WholeResult:
    """One answer as its client understands it; `finish` is the protocol's own word."""

    text: str = ""
    refusal: str = ""  # where the protocol keeps it apart from the text
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str | None = None
    usage: tuple[int, int, int] | None = None  # input, output, cached: totals
    reasoning: int = 0  # of the output
    has_end: bool = False  # the protocol's mark of a complete answer
    error: dict[str, Any] | None = None  # an error event


def call(name: str, arguments: str) -> tuple[str, Any]:
    """A call whose arguments came as text, which has to be an object."""
    read = json.loads(arguments)
    assert isinstance(read, dict), arguments
    return name, read


def chat_usage(usage: dict[str, Any], result: WholeResult) -> None:
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    result.usage = (usage["prompt_tokens"], usage["completion_tokens"], cached)
    result.reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)


def messages_usage(usage: dict[str, Any], result: WholeResult) -> None:
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    result.usage = (usage["input_tokens"] + cached + written, usage["output_tokens"], cached)


def responses_usage(usage: dict[str, Any], result: WholeResult) -> None:
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    result.usage = (usage["input_tokens"], usage["output_tokens"], cached)
    result.reasoning = usage["output_tokens_details"]["reasoning_tokens"]


def gemini_usage(usage: dict[str, Any], result: WholeResult) -> None:
    result.reasoning = usage.get("thoughtsTokenCount", 0)
    output = usage.get("candidatesTokenCount", 0) + result.reasoning
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + output
    result.usage = (usage["promptTokenCount"], output, usage.get("cachedContentTokenCount", 0))


def read_whole(client: str, body: dict[str, Any]) -> WholeResult:
    """Read an answer's body, which must be as the protocol has it."""
    result = {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        client
    ](body)
    result.has_end = True
    return result


def _chat(body: dict[str, Any]) -> WholeResult:
    assert body["object"] == "chat.completion"
    assert isinstance(body["created"], int)
    (choice,) = body["choices"]
    assert choice["index"] == 0
    message = choice["message"]
    assert message["role"] == "assistant"
    result = WholeResult(text=message["content"] or "", finish=choice["finish_reason"])
    result.refusal = message.get("refusal") or ""
    result.thinking = message.get("reasoning_content") or ""
    for one in message.get("tool_calls") or ():
        assert one["type"] == "function"
        result.calls.append(call(one["function"]["name"], one["function"]["arguments"]))
    if body.get("usage") is not None:
        chat_usage(body["usage"], result)
    return result


def _messages(body: dict[str, Any]) -> WholeResult:
    assert (body["type"], body["role"]) == ("message", "assistant")
    result = WholeResult(finish=body["stop_reason"])
    for block in body["content"]:
        if block["type"] == "text":
            result.text += block["text"]
        elif block["type"] == "thinking":
            result.thinking += block["thinking"]
            assert block["signature"]
        else:
            assert block["type"] == "tool_use"
            assert isinstance(block["input"], dict)
            result.calls.append((block["name"], block["input"]))
    if body.get("usage") is not None:
        messages_usage(body["usage"], result)
    return result


def _responses(body: dict[str, Any]) -> WholeResult:
    assert body["object"] == "response"
    result = WholeResult(finish=body["status"])
    if body["incomplete_details"] is not None:
        result.finish = f"{body['status']}: {body['incomplete_details']['reason']}"
    for item in body["output"]:
        if item["type"] == "reasoning":
            result.thinking += "".join(part["text"] for part in item["summary"])
        elif item["type"] == "function_call":
            result.calls.append(call(item["name"], item["arguments"]))
        else:
            assert item["type"] == "message"
            for part in item["content"]:
                result.text += part.get("text", "")
                result.refusal += part.get("refusal", "")
    if body.get("usage") is not None:
        responses_usage(body["usage"], result)
    return result


def _gemini(body: dict[str, Any]) -> WholeResult:
    result = WholeResult()
    take_gemini(body, result)
    return result


def take_gemini(body: dict[str, Any], result: WholeResult) -> None:
    """Read an answer, or one more piece of it."""
    if "usageMetadata" in body:
        gemini_usage(body["usageMetadata"], result)
    if "promptFeedback" in body:
        assert "candidates" not in body
        result.finish = f"blocked: {body['promptFeedback']['blockReason']}"
        return
    (candidate,) = body["candidates"]
    assert candidate.get("index", 0) == 0
    content = candidate.get("content", {"role": "model", "parts": []})
    assert content["role"] == "model"
    for part in content["parts"]:
        if "functionCall" in part:
            result.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
        elif part.get("thought"):
            result.thinking += part["text"]
        else:
            result.text += part["text"]
    if "finishReason" in candidate:
        assert result.finish is None, "it finishes once"
        result.finish = candidate["finishReason"]
