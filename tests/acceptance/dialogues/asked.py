"""What a client asks, written in each of the four protocols."""

import json
from dataclasses import dataclass
from typing import Any

TOOLS = {
    "weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "now": {"type": "object", "properties": {}},
}
DESCRIPTION = "Tells something."
# One transparent pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"
    "YGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)
PICTURE_URL = "https://pictures.example/harbour.png"
# The calls of the turn before, and what came of them.
CALLS = [("call_a1", "weather", {"city": "Zürich"}), ("call_b2", "weather", {"city": "Basel"})]
RESULTS = {"call_a1": "rain, 4 °C", "call_b2": "snow"}
THINKING_TOKENS = 1024
SYSTEM = "Answer briefly."


@dataclass(frozen=True)
class Asked:
    """One request, in no protocol yet."""

    text: str = "Hello"
    has_tools: bool = False
    image: str | None = None  # "inline" or "url"
    has_results: bool = False  # the conversation ends with the results of two tool calls
    stop: str | None = None
    thinks: bool = False
    max_tokens: int = 4000
    wants_usage: bool = True  # chat's streams state it on request only


def path_of(client: str, model: str, form: str) -> str:
    """Where a client asks; `form` is whole, stream or array."""
    if client == "native":
        verb = "generateContent" if form == "whole" else "streamGenerateContent"
        return f"/v1beta/models/{model}:{verb}" + ("?alt=sse" if form == "stream" else "")
    return {
        "chat": "/v1/chat/completions",
        "messages": "/v1/messages",
        "responses": "/v1/responses",
    }[client]


def body_of(client: str, model: str, form: str, asked: Asked) -> dict[str, Any]:
    """The body of a client's request."""
    body = {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        client
    ](asked)
    if client == "native":
        return body
    if client == "chat" and form == "stream" and asked.wants_usage:
        body["stream_options"] = {"include_usage": True}
    return {"model": model, "stream": form == "stream", **body}


def content_bytes(body: dict[str, Any]) -> int:
    """The length of the conversation as the tests' client writes it, for the pre-charge rule."""
    found = next(body[name] for name in ("messages", "input", "contents") if name in body)
    return len(json.dumps(found, separators=(",", ":")).encode())


def _chat(asked: Asked) -> dict[str, Any]:
    content: Any = asked.text
    if asked.image:
        url = f"data:image/png;base64,{PIXEL}" if asked.image == "inline" else PICTURE_URL
        image = {"type": "image_url", "image_url": {"url": url}}
        content = [{"type": "text", "text": asked.text}, image]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": content},
    ]
    if asked.has_results:
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for call_id, name, arguments in CALLS
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": call_id, "content": result}
            for call_id, result in RESULTS.items()
        ]
    body: dict[str, Any] = {"messages": messages, "max_tokens": asked.max_tokens}
    if asked.has_tools or asked.has_results:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": name, "description": DESCRIPTION, "parameters": schema},
            }
            for name, schema in TOOLS.items()
        ]
    if asked.stop:
        body["stop"] = [asked.stop]
    if asked.thinks:
        body["reasoning_effort"] = "low"
    return body


def _messages(asked: Asked) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": asked.text}]
    if asked.image == "inline":
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        content.append({"type": "image", "source": source})
    elif asked.image == "url":
        content.append({"type": "image", "source": {"type": "url", "url": PICTURE_URL}})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if asked.has_results:
        calls = [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for call_id, name, arguments in CALLS
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call_id, "content": result}
            for call_id, result in RESULTS.items()
        ]
        messages.append({"role": "assistant", "content": calls})
        messages.append({"role": "user", "content": results})
    body: dict[str, Any] = {"system": SYSTEM, "messages": messages, "max_tokens": asked.max_tokens}
    if asked.has_tools or asked.has_results:
        body["tools"] = [
            {"name": name, "description": DESCRIPTION, "input_schema": schema}
            for name, schema in TOOLS.items()
        ]
    if asked.stop:
        body["stop_sequences"] = [asked.stop]
    if asked.thinks:
        body["thinking"] = {"type": "enabled", "budget_tokens": THINKING_TOKENS}
    return body


def _responses(asked: Asked) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "input_text", "text": asked.text}]
    if asked.image:
        url = f"data:image/png;base64,{PIXEL}" if asked.image == "inline" else PICTURE_URL
        content.append({"type": "input_image", "image_url": url, "detail": "auto"})
    items: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if asked.has_results:
        items += [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": json.dumps(arguments),
            }
            for call_id, name, arguments in CALLS
        ]
        items += [
            {"type": "function_call_output", "call_id": call_id, "output": result}
            for call_id, result in RESULTS.items()
        ]
    body: dict[str, Any] = {
        "input": items,
        "instructions": SYSTEM,
        "max_output_tokens": asked.max_tokens,
    }
    if asked.has_tools or asked.has_results:
        body["tools"] = [
            {"type": "function", "name": name, "description": DESCRIPTION, "parameters": schema}
            for name, schema in TOOLS.items()
        ]
    if asked.thinks:
        body["reasoning"] = {"effort": "low", "summary": "auto"}
    return body


def _gemini(asked: Asked) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": asked.text}]
    if asked.image == "inline":
        parts.append({"inlineData": {"mimeType": "image/png", "data": PIXEL}})
    elif asked.image == "url":
        parts.append({"fileData": {"mimeType": "image/png", "fileUri": PICTURE_URL}})
    contents: list[dict[str, Any]] = [{"role": "user", "parts": parts}]
    if asked.has_results:
        calls = [
            {"functionCall": {"id": call_id, "name": name, "args": arguments}}
            for call_id, name, arguments in CALLS
        ]
        names = {call_id: name for call_id, name, _ in CALLS}
        results = [
            {
                "functionResponse": {
                    "id": call_id,
                    "name": names[call_id],
                    "response": {"output": result},
                }
            }
            for call_id, result in RESULTS.items()
        ]
        contents.append({"role": "model", "parts": calls})
        contents.append({"role": "user", "parts": results})
    config: dict[str, Any] = {"maxOutputTokens": asked.max_tokens}
    if asked.stop:
        config["stopSequences"] = [asked.stop]
    if asked.thinks:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": THINKING_TOKENS}
    body: dict[str, Any] = {
        "systemInstruction": {"parts": [{"text": SYSTEM}]},
        "contents": contents,
        "generationConfig": config,
    }
    if asked.has_tools or asked.has_results:
        declared = [
            {"name": name, "description": DESCRIPTION, "parameters": schema}
            for name, schema in TOOLS.items()
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    return body
