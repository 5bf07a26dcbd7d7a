"""Streams of an upstream, as hostile as they may be: events of one kind, for each dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Events = list[bytes]


def event(value: Any) -> bytes:
    """One event with this data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chat(*deltas: Any) -> Events:
    """A chunk for each delta."""
    return [event({"id": "a", "choices": [{"index": 0, "delta": delta}]}) for delta in deltas]


def piece(index: int | None, arguments: str, **more: Any) -> dict[str, Any]:
    """A delta with a piece of a call."""
    function = {"arguments": arguments, **more}
    call: dict[str, Any] = {"function": function} if index is None else {"index": index}
    return {"tool_calls": [{**call, "function": function}]}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Events:
    """A block of the messages protocol that is never stopped."""
    begun = {"type": "content_block_start", "index": index, "content_block": start}
    said = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [event(one) for one in (begun, *said)]


def arguments(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def gemini(*parts: Any) -> Events:
    """A chunk for each part."""
    return [event({"candidates": [{"content": {"parts": [part]}}]}) for part in parts]


def response(kind: str, **members: Any) -> bytes:
    return event({"type": f"response.{kind}", **members})


TOOL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
PARTIAL = {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}

STREAMS: Mapping[str, Mapping[str, Callable[[int], Events]]] = {
    "chat": {
        "text": lambda n: chat(*({"content": "x"} for _ in range(n))),
        "comments first": lambda n: [b": x\n\n"] * n + chat({"content": "x"}),
        "usage alone": lambda n: (
            chat({"content": "x"})
            + [event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})] * n
        ),
        "pieces of one call": lambda n: chat(
            piece(0, "", name="f"), *(piece(0, "{}") for _ in range(n))
        ),
        "closing pieces": lambda n: chat(
            piece(0, '{"a":', name="f"),
            piece(1, "{}", name="g"),
            *(piece(0, '{"b":1},"c":{}') for _ in range(n)),
        ),
        "calls without a name": lambda n: chat(*(piece(0, "xxxx") for _ in range(n))),
        "calls": lambda n: chat(*(piece(k, "{", name="f") for k in range(n))),
        "calls by id": lambda n: chat(
            *({"tool_calls": [{"id": f"c{k}", "function": {"name": "f"}}]} for k in range(n))
        ),
        "calls among text": lambda n: chat(
            *(piece(k, "{", name="f") for k in range(n)), *({"content": "x"} for _ in range(n))
        ),
        "thoughts": lambda n: chat(*({"reasoning_content": "x"} for _ in range(n))),
    },
    "messages": {
        "text": lambda n: block(0, {"type": "text"}, *([{"type": "text_delta", "text": "x"}] * n)),
        "pieces": lambda n: block(0, TOOL, *([arguments("{}")] * n)),
        "calls": lambda n: [one for k in range(n) for one in block(k, TOOL, arguments("{"))],
        "thoughts": lambda n: block(
            0, {"type": "thinking"}, *([{"type": "thinking_delta", "thinking": "x"}] * n)
        ),
    },
    "native": {
        "text": lambda n: gemini(*([{"text": "x"}] * n)),
        "calls": lambda n: gemini(*([{"functionCall": {"name": "f", "args": {}}}] * n)),
        "partial arguments": lambda n: gemini(
            {"functionCall": {"name": "f", "willContinue": True}},
            *([{"functionCall": {"partialArgs": [PARTIAL], "willContinue": True}}] * n),
        ),
        "thoughts": lambda n: gemini(*([{"text": "x", "thought": True}] * n)),
        "candidates": lambda n: [
            event({"candidates": [{"index": k, "finishReason": "STOP"}]}) for k in range(n)
        ],
    },
    "responses": {
        "text": lambda n: [response("output_text.delta", delta="x", output_index=0)] * n,
        "arguments before the name": lambda n: (
            [response("function_call_arguments.delta", delta="xxxx", output_index=0)] * n
        ),
        "items": lambda n: [
            response(
                "output_item.done", output_index=k, item={"type": "function_call", "name": "f"}
            )
            for k in range(n)
        ],
        "images and citations": lambda n: [
            one
            for k in range(n)
            for one in (
                response(
                    "output_item.done",
                    output_index=k,
                    item={"type": "image_generation_call", "result": "aaaa"},
                ),
                response(
                    "output_text.annotation.added",
                    output_index=0,
                    annotation={
                        "type": "url_citation",
                        "url": "u",
                        "start_index": k,
                        "end_index": k,
                    },
                ),
            )
        ],
    },
}
