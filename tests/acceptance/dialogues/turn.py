"""What a client asks, written in each of the four protocols."""

import json
from dataclasses import dataclass
from typing import Any

TOOLS = {
    "weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "now": {"type": "object", "properties": {}},
}
DESCRIPTION = "Tells something."
# The calls of the turn before, and what came of them.
CALLS = [("call_a1", "weather", {"city": "Zürich"}), ("call_b2", "weather", {"city": "Basel"})]
RESULTS = {"call_a1": "rain, 4 °C", "call_b2": "snow"}
THINKING_TOKENS = 1024
SYSTEM = "Answer briefly."


@dataclass(frozen=True)
class Turn:
    """One request, in no protocol yet."""

    text: str = "Hello"
    has_tools: bool = False
    has_results: bool = False  # the conversation ends with the results of two tool calls
    thinks: bool = False
    max_tokens: int = 4000


def path_of(client: str, model: str, form: str) -> str:
    """Where a client asks; `form` is whole or stream."""
    if client == "native":
        verb = "generateContent" if form == "whole" else "streamGenerateContent"
        return f"/v1beta/models/{model}:{verb}" + ("?alt=sse" if form == "stream" else "")
    return {
        "chat": "/v1/chat/completions",
        "messages": "/v1/messages",
        "responses": "/v1/responses",
    }[client]


def body_of(client: str, model: str, form: str, request: Turn) -> dict[str, Any]:
    """The body of a client's request."""
    body = {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        client
    ](request)
    if client == "native":
        return body
    if client == "chat" and form == "stream":
        body["stream_options"] = {"include_usage": True}
    return {"model": model, "stream": form == "stream", **body}


def _chat(request: Turn) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": request.text},
    ]
    if request.has_results:
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
    body: dict[str, Any] = {"messages": messages, "max_tokens": request.max_tokens}
    if request.has_tools or request.has_results:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": name, "description": DESCRIPTION, "parameters": schema},
            }
            for name, schema in TOOLS.items()
        ]
    if request.thinks:
        body["reasoning_effort"] = "low"
    return body


def _messages(request: Turn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": request.text}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if request.has_results:
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
    body: dict[str, Any] = {
        "system": SYSTEM,
        "messages": messages,
        "max_tokens": request.max_tokens,
    }
    if request.has_tools or request.has_results:
        body["tools"] = [
            {"name": name, "description": DESCRIPTION, "input_schema": schema}
            for name, schema in TOOLS.items()
        ]
    if request.thinks:
        body["thinking"] = {"type": "enabled", "budget_tokens": THINKING_TOKENS}
    return body


def _responses(request: Turn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "input_text", "text": request.text}]
    items: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if request.has_results:
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
        "max_output_tokens": request.max_tokens,
    }
    if request.has_tools or request.has_results:
        body["tools"] = [
            {"type": "function", "name": name, "description": DESCRIPTION, "parameters": schema}
            for name, schema in TOOLS.items()
        ]
    if request.thinks:
        body["reasoning"] = {"effort": "low", "summary": "auto"}
    return body


def _gemini(request: Turn) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": request.text}]
    contents: list[dict[str, Any]] = [{"role": "user", "parts": parts}]
    if request.has_results:
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
    config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
    if request.thinks:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": THINKING_TOKENS}
    body: dict[str, Any] = {
        "systemInstruction": {"parts": [{"text": SYSTEM}]},
        "contents": contents,
        "generationConfig": config,
    }
    if request.has_tools or request.has_results:
        declared = [
            {"name": name, "description": DESCRIPTION, "parameters": schema}
            for name, schema in TOOLS.items()
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    return body
