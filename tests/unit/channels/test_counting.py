"""The estimate of input tokens: what it is off by, what it reads, and how its work grows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from channels.dialects.counting import read_count
from channels.dialects.token_estimate import estimate, tokens_of_text
from channels.errors import InvalidRequest
from tests.support.nesting import BOTTOMLESS
from tests.support.rows import each
from tests.unit.channels.recordings import wholes

# What the documentation states (`ops/reference/models.md`).
ERROR_MAX = 0.07

TURNS = {"messages": "messages", "native": "contents", "responses": "input"}

# Recordings whose text is not what their usage counts: it was cut or put in place of another.
EDITED = (
    "firebase-unary-failure-finish-reason-safety",
    "firebase-unary-success-basic-reply-long",
    "firebase-unary-success-url-context-mixed-validity",
    "parallel-tool-call-wrapper",
)


def counted(protocol: str, **members: Any) -> int:
    body = json.dumps(members, ensure_ascii=False).encode()
    return estimate(body, protocol)[0]


def added(protocol: str, *turns: Any) -> int:
    """What turns add to an empty conversation."""
    turns_of = TURNS[protocol]
    return counted(protocol, **{turns_of: list(turns)}) - counted(protocol, **{turns_of: []})


def recorded() -> Iterator[tuple[str, str, list[Any], int]]:
    """Recorded responses of which every part that was counted is there: as turns, and the count."""
    for path in wholes("messages"):
        whole = json.loads(path.read_bytes())
        content = whole.get("content")
        if content and all(one["type"] in ("text", "tool_use") for one in content):
            stated = whole["usage"]["output_tokens"]
            yield "messages", path.name, [{"role": "assistant", "content": content}], stated
    for path in wholes("native"):
        if path.suffix != ".json":
            continue
        whole = json.loads(path.read_bytes())
        content = (whole.get("candidates") or [{}])[0].get("content", {})
        known = {"text", "functionCall", "thoughtSignature"}
        if content.get("parts") and all(not one.keys() - known for one in content["parts"]):
            yield "native", path.name, [content], whole["usageMetadata"]["candidatesTokenCount"]
    for path in wholes("responses"):
        whole = json.loads(path.read_bytes())
        items = whole.get("output") or ()
        shown = [one for one in items if one["type"] in ("message", "function_call")]
        if shown and all(one["type"] in ("message", "function_call", "reasoning") for one in items):
            usage = whole["usage"]
            stated = usage["output_tokens"] - usage["output_tokens_details"]["reasoning_tokens"]
            yield "responses", path.name, shown, stated
    for path in wholes("chat"):
        whole = json.loads(path.read_bytes())
        stated = whole["usage"]["completion_tokens"]
        yield "responses", path.name, [whole["choices"][0]["message"]], stated


def test_the_estimate_is_off_by_a_tenth_on_average_from_what_providers_state() -> None:
    errors = {
        name: abs(added(protocol, *turns) - stated) / stated
        for protocol, name, turns, stated in recorded()
        if not name.startswith(EDITED)
    }
    # Without recordings beside the project the weights of `TEXTS` below stand for them.
    assert sum(errors.values()) <= ERROR_MAX * len(errors), errors


# Of each kind of text, what the weights make of it; a change of one has to be seen.
TEXTS = {
    "The cat sat on the mat, and the dog lay by the door.": 15,
    "def add(first: int, second: int) -> int:\n    return first + second\n": 18,
    '{"city":"San Francisco","unit":"celsius","days":12345}': 18,
    "猫坐在垫子上": 5,
    "": 0,
}


def test_each_kind_of_text_has_its_weight() -> None:
    assert {text: round(tokens_of_text(text.encode())) for text in TEXTS} == TEXTS


def test_a_texts_tokens_grow_with_it_alone() -> None:
    for text in TEXTS:
        once, many = tokens_of_text(text.encode()), tokens_of_text((text + "\n").encode() * 1000)
        assert many <= 1000 * (once + 1)


IMAGE = "A" * 400_000
BY_PROTOCOL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "messages": (
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
    ),
    "native": ({"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": IMAGE}}),
    "responses": (
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
    ),
}


@each("protocol", BY_PROTOCOL)
def test_an_image_counts_as_one_and_not_by_its_bytes(protocol: str) -> None:
    text, image = BY_PROTOCOL[protocol]
    parts = "parts" if protocol == "native" else "content"
    one, two = (
        added(protocol, {"role": "user", parts: [text, *images]}) for images in ([], [image])
    )
    assert 3 <= one <= 12
    assert 250 <= two - one <= 1500


def test_instructions_tools_and_files_count() -> None:
    turn = {"role": "user", "content": "Hello"}
    alone = counted("messages", messages=[turn])
    result = counted("messages", system="Be brief and kind. " * 20, messages=[turn])
    assert result - alone > 80
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"name": "weather", "description": "The weather in a city", "input_schema": schema}
    one, two = (counted("messages", messages=[turn], tools=[tool] * n) for n in (1, 2))
    assert 350 < one - alone < 450
    assert 15 < two - one < 60
    data = {"type": "base64", "media_type": "application/pdf", "data": "A" * 80_000}
    page = {"role": "user", "content": [{"type": "document", "source": data}]}
    assert 1_500 < added("messages", page) < 1_700
    message = {**data, "type": "text", "data": "Hello there. " * 100}
    read = {"role": "user", "content": [{"type": "document", "source": message}]}
    assert 200 < added("messages", read) < 500


def test_any_value_is_counted_without_a_fault() -> None:
    values: tuple[Any, ...] = (
        None,
        1,
        "x",
        [],
        {},
        [None, 1, [["x"]]],
        {"role": 1},
        {"type": []},
        {"source": 3},
    )
    for value in values:
        for protocol, turns in TURNS.items():
            assert counted(protocol, **{turns: value, "tools": value, "system": value}) >= 1
    deep = b'{"messages":' + b"[" * BOTTOMLESS + b"]" * BOTTOMLESS + b"}"
    with pytest.raises(InvalidRequest):
        estimate(deep, "messages")


def test_a_body_without_what_is_counted_is_refused() -> None:
    for protocol, body, param in (
        ("messages", b'{"model":"m"}', "messages"),
        ("messages", b'{"messages":[]}', "model"),
        ("messages", b'{"messages":[],"model":1}', "model"),
        ("native", b"{}", "contents"),
        ("responses", b'{"input":"x"}', "model"),
        ("responses", b'{"model":"m","input":7}', "input"),
        ("messages", b'{"model":"m","messages":"x"}', "messages"),
        ("native", b'{"contents":{}}', "contents"),
    ):
        with pytest.raises(InvalidRequest) as raised:
            read_count(body, protocol)
        assert raised.value.param == param
    assert read_count(b'{"model":"m"}', "responses") == ("m", None)
