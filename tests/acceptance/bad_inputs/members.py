"""Documented members of a chat request with types and values that they may not have.

What only an upstream can judge, such as the inside of tools, is forwarded to it.
"""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.bad_inputs.case import (
    ALIAS,
    MODEL,
    PLACEHOLDER,
    UNKNOWN_MODEL,
    Answer,
    Case,
    chat_json,
    invalid,
    request,
)

_HELLO = {"role": "user", "content": "Hello"}

# One value of each type, and the limits of the numbers.
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, "", "1", "true", [], [1], {}, {"a": 1}
)  # fmt: skip

# What each member takes of them; nothing else does.
_TAKES: dict[str, tuple[Any, ...]] = {
    "model": ("1", "true"),  # names of models that there are not
    "messages": (),
    "stream": (None, True, False),
    "max_tokens": (None, 1),
    "max_completion_tokens": (None, 1),
    "temperature": (None, 0, 1, 1.5),
    "tools": (None, []),
    "tool_choice": (None, "", "1", "true", {}, {"a": 1}),
    "stream_options": (None, {}, {"a": 1}),
    "response_format": (None, {}, {"a": 1}),
    "n": (None, 1),
}


def _is_among(value: Any, values: tuple[Any, ...]) -> bool:
    """Whether it is there, a boolean being no number."""
    return any(type(value) is type(one) and value == one for one in values)


_WRONG_TYPES = [
    (f"{member} = {json.dumps(value)}", {member: value}, member)
    for member, taken in _TAKES.items()
    for value in _VALUES
    if not _is_among(value, taken)
]


def _message(**members: Any) -> dict[str, Any]:
    return {"messages": [_HELLO, members]}


def _tool(**members: Any) -> dict[str, Any]:
    return {"tools": [members]}


_WRONG_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "model missing": ({"model": ...}, "model is missing"),
    "model too long": ({"model": "m" * 257}, "model"),
    "model with a line feed": ({"model": f"{MODEL}\n"}, "model"),
    "model with a NUL": ({"model": f"{MODEL}\0"}, "model"),
    "model written backwards": ({"model": f"\u202e{MODEL}"}, "model"),
    "messages missing": ({"messages": ...}, "messages is missing"),
    "a message that is null": ({"messages": [None]}, "messages[0]"),
    "a message that is a string": ({"messages": ["Hello"]}, "messages[0]"),
    "a message in an array": ({"messages": [[_HELLO]]}, "messages[0]"),
    "a number among messages": ({"messages": [_HELLO, 1]}, "messages[1]"),
    "role missing": (_message(content="x"), "messages[1].role"),
    "role null": (_message(role=None, content="x"), "messages[1].role"),
    "role unknown": (_message(role="robot", content="x"), "messages[1].role"),
    "role in capitals": (_message(role="User", content="x"), "messages[1].role"),
    "role a number": (_message(role=1, content="x"), "messages[1].role"),
    "role an array": (_message(role=["user"], content="x"), "messages[1].role"),
    "content missing": (_message(role="user"), "messages[1].content"),
    "content a number": (_message(role="user", content=5), "messages[1].content"),
    "content a boolean": (_message(role="user", content=True), "messages[1].content"),
    "content an object": (_message(role="user", content={}), "messages[1].content"),
    "max_tokens beyond 2^53": ({"max_tokens": 2**53}, "max_tokens"),
    "max_tokens beyond 2^64": ({"max_tokens": 2**64 + 1}, "max_tokens"),
    "max_tokens as a float": ({"max_tokens": 10.0}, "max_tokens"),
    "maxima that contradict": ({"max_tokens": 5, "max_completion_tokens": 6}, "contradicts"),
    "temperature a little too high": ({"temperature": 2.0000001}, "temperature"),
    "temperature a little too low": ({"temperature": -1e-9}, "temperature"),
    "n beyond 2^53": ({"n": 2**53}, "n:"),
    "a tool that is null": ({"tools": [None]}, "tools[0]"),
    "a tool of type nothing": (_tool(type=""), "tools[0].type"),
    "a tool of a huge type": (_tool(type="t" * 100_000), "tools[0].type"),
    "include_usage a string": ({"stream_options": {"include_usage": "yes"}}, "include_usage"),
    "include_usage 1": ({"stream_options": {"include_usage": 1}}, "include_usage"),
    "web search without a stream": (_tool(type="web_search"), "stream"),
    "image generation without a stream": (_tool(type="image_generation"), "stream"),
    "web search dressed up": (_tool(type="web_search", function={"name": "f"}), "stream"),
}

_NO_SUCH_MODEL = (
    "no-such-model", PLACEHOLDER, MODEL.upper(), f" {MODEL}", f"{MODEL} ", f"{MODEL}/", "m" * 256,
    "sіm-model", "🦄", "../sim-model", "sim%2dmodel", "' OR 1=1 --", "<script>alert(1)</script>",
    "%s%n{0}", "`", "${MODEL}", "*", "null",
)  # fmt: skip

_NO_SUCH_TOOL = {
    "web search": {"type": "web_search"},
    "image generation": {"type": "image_generation"},
    "what nobody knows": {"type": "telepathy"},
}

_LOOKALIKE_NAMES = [
    Case(f"no such model: {name[:40]!r}", request(body=chat_json(model=name)), (UNKNOWN_MODEL,))
    for name in _NO_SUCH_MODEL
]

CASES = (
    *(
        Case(f"type: {name}", request(body=chat_json(**members)), (invalid(says),))
        for name, members, says in _WRONG_TYPES
    ),
    *(
        Case(f"value: {name}", request(body=chat_json(**members)), (invalid(says),))
        for name, (members, says) in _WRONG_VALUES.items()
    ),
    *_LOOKALIKE_NAMES,
    *(
        Case(
            f"no such tool: {name}",
            request(body=chat_json(stream=True, tools=[tool])),
            (Answer(400, "tool_not_supported", str(tool["type"])),),
        )
        for name, tool in _NO_SUCH_TOOL.items()
    ),
    *(
        Case(
            f"not allowed: {name}",
            request(body=chat_json(model=name), key="x-api-key: {ALLOWED}"),
            (Answer(400, "model_not_allowed", MODEL),),
        )
        for name in (MODEL, ALIAS)
    ),
    Case(
        "the key as a model",
        request(body=chat_json(model="{KEY}"), length=False, key="x-api-key: {KEY}").replace(
            b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % (len(chat_json(model="")) + 76)
        ),
        (UNKNOWN_MODEL,),
    ),
    Case(
        "more than the balance covers",
        request(body=chat_json(max_tokens=2**53 - 1)),
        (Answer(402, "quota_exceeded", "max_tokens"),),
    ),
)
