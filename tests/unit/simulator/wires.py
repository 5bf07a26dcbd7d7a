"""What the simulator says on each wire: kept as text, to be read and compared.

One file for each protocol, a section for each thing asked, plain and streamed. After a change that
is meant to show, `python -m tests.unit.simulator.wires` writes them anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import ask

FOLDER = Path(__file__).parent / "wires"
CHATS = ("chat", "messages", "responses", "native")
NAMES = ("weather", "news")
SHAPE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
}
CALL = {"name": "weather", "arguments": "{}"}
CALLED = {"function": CALL}
MOOD = {"properties": {"mood": {"enum": ["calm"]}}}
SKY = {"name": "weather", "response": {"sky": "wet"}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "chat": [{"type": "function", "function": {"name": n, "parameters": SHAPE}} for n in NAMES],
    "messages": [{"name": name, "input_schema": SHAPE} for name in NAMES],
    "responses": [{"type": "function", "name": name, "parameters": SHAPE} for name in NAMES],
    "native": [{"functionDeclarations": [{"name": n, "parameters": SHAPE} for n in NAMES]}],
}
USAGE = {"input": 100, "output": 50, "cached": 20, "cache_write": 10, "reasoning": 30}

# What a directive makes of an answer, on every wire.
SIM: dict[str, dict[str, Any]] = {
    "text in pieces": {"text": "with “quotes” and a \\ in it", "chars_per_event": 7},
    "three events": {"events": 3, "text": "abcdefgh"},
    "no event": {"events": 0},
    "stated calls": {"tool_calls": [{"name": "alpha", "arguments": {"n": 1}}, {"name": "beta"}]},
    "text and a call": {"text": "Let me look.", "tool_calls": 1},
    "signed calls": {"tool_calls": 2, "reasoning_text": "What does she want?"},
    "thoughts": {"text": "yes", "reasoning_text": "What does she want?"},
    "refusal": {"refusal": "I cannot help with that."},
    "blocked": {"blocked": True},
    "stop sequence": {"text": "one", "stop_sequence": "END"},
    "filtered": {"text": "one", "finish_reason": "content_filter"},
    "no usage": {"text": "one", "no_usage": True},
    "stated usage": {"text": "one", "usage": USAGE},
    "zero usage": {"text": "one", "usage": {"input": 0, "output": 0}},
    "no terminator": {"text": "one", "no_done": True},
}
TURN = {"role": "user", "content": "rain?"}
# What the members of a request make of it, on its own wire.
MEMBERS: dict[str, dict[str, dict[str, Any]]] = {
    "chat": {
        "usage chunk": {"stream_options": {"include_usage": True}},
        "maximum": {"text": "x" * 100, "max_tokens": 4},
        "newer maximum": {"text": "x" * 100, "max_completion_tokens": 4},
        "no tool": {"tools": TOOLS["chat"], "tool_choice": "none"},
        "one at a time": {"tools": TOOLS["chat"], "parallel_tool_calls": False},
        "named": {
            "tools": TOOLS["chat"],
            "tool_choice": {"type": "function", "function": {"name": "news"}},
        },
        "result": {
            "tools": TOOLS["chat"],
            "messages": [
                TURN,
                {"role": "assistant", "tool_calls": [{"type": "function", "id": "c", **CALLED}]},
                {"role": "tool", "tool_call_id": "c", "content": "a light drizzle"},
            ],
        },
        "image": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what is this"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    ],
                }
            ]
        },
        "reasoning and cache": {"reasoning_effort": "low", "prompt_cache_key": "k"},
        "two choices": {"n": 2},
        "json": {"response_format": {"type": "json_object"}},
        "schema": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "m", "schema": MOOD},
            }
        },
        "odd model": {"model": "100%d %b"},
    },
    "messages": {
        "maximum": {"text": "x" * 100, "max_tokens": 4},
        "no tool": {"tools": TOOLS["messages"], "tool_choice": {"type": "none"}},
        "one at a time": {
            "tools": TOOLS["messages"],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
        "named": {"tools": TOOLS["messages"], "tool_choice": {"type": "tool", "name": "news"}},
        "result": {
            "tools": TOOLS["messages"],
            "messages": [
                TURN,
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "weather", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "wet"}],
                },
            ],
        },
        "thinking": {"thinking": {"type": "enabled", "budget_tokens": 20}},
        "cache": {
            "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
        },
        "schema": {"output_config": {"format": {"type": "json_schema", "schema": SHAPE}}},
    },
    "responses": {
        "instructions": {"instructions": "be brief"},
        "maximum": {"text": "x" * 100, "max_output_tokens": 4},
        "named": {
            "tools": TOOLS["responses"],
            "tool_choice": {"type": "function", "name": "news"},
        },
        "result": {
            "tools": TOOLS["responses"],
            "input": [
                TURN,
                {"type": "function_call", "call_id": "c", **CALL},
                {"type": "function_call_output", "call_id": "c", "output": "wet"},
            ],
        },
        "reasoning": {"reasoning": {"effort": "low"}},
        "search": {"tools": [{"type": "web_search"}]},
        "picture": {
            "tools": [{"type": "image_generation", "size": "512x512", "partial_images": 2}],
            "sim": {"text": "Here."},
        },
        "search chosen": {
            "tools": [{"type": "web_search"}, *TOOLS["responses"]],
            "tool_choice": {"type": "web_search"},
        },
        "everything": {
            "tools": [{"type": "web_search"}, {"type": "image_generation"}, *TOOLS["responses"]]
        },
    },
    "native": {
        "maximum": {"text": "x" * 100, "generationConfig": {"maxOutputTokens": 4}},
        "no tool": {
            "tools": TOOLS["native"],
            "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
        },
        "allowed": {
            "tools": TOOLS["native"],
            "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["news"]}},
        },
        "result": {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"functionResponse": SKY}],
                }
            ]
        },
        "thoughts shown": {
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 8, "includeThoughts": True}}
        },
        "cached content": {"cachedContent": "c"},
        "schema": {
            "generationConfig": {"responseMimeType": "application/json", "responseSchema": SHAPE}
        },
        **{
            spelling: {"tools": [{"functionDeclarations": [{"name": "weather", spelling: SHAPE}]}]}
            for spelling in ("parametersJsonSchema", "parameters_json_schema")
        },
    },
}


def asked(protocol: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is asked on a wire, each under its name."""
    text = {"text": "the tide is low"}
    cases: dict[str, dict[str, Any]] = {
        "echo": text,
        "tools": {"tools": TOOLS[protocol]},
        **{name: {"sim": sim} for name, sim in SIM.items()},
        **MEMBERS[protocol],
    }
    for name, options in cases.items():
        sim = {"chars_per_event": 50, **options.get("sim", {})}
        yield name, {**options, "sim": sim}
        yield f"{name}, streamed", {**options, "sim": sim, "stream": True}


def said(protocol: str) -> str:
    """What the simulator says to all of it."""

    async def all_of_it() -> str:
        sections = []
        for name, options in asked(protocol):
            async with Simulator() as simulator:
                reply = await ask(simulator, protocol, **options)
            body = reply.body.decode().replace("\r\n", "\n").rstrip("\n")
            sections.append(f"=== {name}: {reply.status}\n{body}\n\n")
        return "".join(sections)

    return run(all_of_it())


def main() -> None:
    """Write all of it as it is now."""
    FOLDER.mkdir(exist_ok=True)
    for protocol in CHATS:
        (FOLDER / f"{protocol}.txt").write_text(said(protocol), encoding="utf-8")


if __name__ == "__main__":
    main()
