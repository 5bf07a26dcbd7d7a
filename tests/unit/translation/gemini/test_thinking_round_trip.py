"""Signatures and arguments of calls, however they come, and back to their maker."""

import json
from typing import Any

from channels.dialects.gemini.signatures import (
    ESCAPE,
    Signature,
    read_signature,
    write_redacted,
    write_signature,
)
from channels.translation.events import CallBegan, CallDelta, Finished
from channels.translation.model import Part, Response, Text, Thinking, ToolCall
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import HI, call, chunk, model, result, thought, user
from tests.unit.translation.pieces import text, use
from tests.unit.translation.translated import answered, events_from, sse, translated, whole

USER = {"role": "user", "content": "hi"}


def told_back(message: dict[str, Any]) -> list[Any]:
    """The contents a native-content upstream is sent when a chat client returns a message."""
    results = [
        {"role": "tool", "tool_call_id": made["id"], "content": "x"}
        for made in message.get("tool_calls", ())
    ]
    body = {"model": "m", "messages": [USER, message, *results]}
    contents: list[Any] = translated("chat", "native", body)[0]["contents"]
    return contents


def test_signature_of_a_call_comes_back_by_a_chat_client() -> None:
    said = chunk(
        thought("hm"), call("f", {"a": 1}, "sig", id="x"), call("g", id="y"), finishReason="STOP"
    )
    message = whole("chat", answered("native", said))["choices"][0]["message"]
    assert told_back(message) == [
        HI,
        model(call("f", {"a": 1}, "sig", id="x"), call("g", {}, id="y")),
        user(result("f", {"output": "x"}, id="x"), result("g", {"output": "x"}, id="y")),
    ]


THOUGHTS: tuple[Part, ...] = (
    Thinking("hm", "sig/+=", "messages"),
    Thinking("", redacted="da/ta", signer="messages"),
    Thinking("", "empty", "messages"),
    Text("a"),
    ToolCall("x", "f", "{}"),
)
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "sig/+="},
    {"type": "redacted_thinking", "data": "da/ta"},
    {"type": "thinking", "thinking": "", "signature": "empty"},
    text("a"),
    use("x", {}, name="f"),
]
ANSWER = Response(id="u", model="m", parts=THOUGHTS, finish="tool_calls")


def given_back(parts: list[Any]) -> list[Any]:
    """The blocks a messages upstream is sent when a native-content client returns parts."""
    body = {"contents": [HI, {"role": "model", "parts": parts}, user(result("f", id="x"))]}
    sent, dropped = translated("native", "messages", body)
    assert dropped == []
    blocks: list[Any] = sent["messages"][1]["content"]
    return blocks


def test_thoughts_of_another_provider_come_back_by_a_gemini_client() -> None:
    parts = whole("native", ANSWER)["candidates"][0]["content"]["parts"]
    assert given_back(parts) == BLOCKS


@cases("signer", "chat", "messages", "responses")
@cases("value", "s", "a/b+c==", "ä€", "redacted", "translated:x", "x" * 5000)
def test_foreign_signature_survives_its_envelope(signer: Any, value: str) -> None:
    field = write_signature(value, signer)
    assert read_signature(field) == Signature(value, signer)
    # Official clients send it back in the other alphabet, some without padding.
    other = field.translate(str.maketrans("+/", "-_"))
    assert read_signature(other) == Signature(value, signer)
    assert read_signature(other.rstrip("=")) == Signature(value, signer)
    hidden = write_redacted(value, signer)
    assert read_signature(hidden) == Signature(value, signer, is_redacted=True)


@cases("field", "AY89a1==", "dHJhbnNsYXRlZDp4", "dHJhbnNsYXRlZDo!!", "dHJhbnNsYXRlZDr//w==")
def test_signature_of_this_provider_is_left_alone(field: str) -> None:
    assert read_signature(field) == Signature(field, "native")
    assert write_signature(field, "native") == field
    assert write_signature(field, None) == field


@cases(
    "field",
    None,
    "",
    7,
    ESCAPE,
    "context_engineering_is_the_way_to_go",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
)
def test_value_that_skips_the_check_is_no_signature(field: object) -> None:
    assert read_signature(field) is None


# --- Function calls whose arguments come value by value, as newer upstreams stream them ---

STOP = chunk(finishReason="STOP")


def piece(*args: dict[str, Any], **members: Any) -> dict[str, Any]:
    return chunk({"functionCall": {"partialArgs": list(args), "willContinue": True, **members}})


def began(name: str = "f") -> dict[str, Any]:
    return chunk({"functionCall": {"name": name, "id": name, "willContinue": True}})


def value(path: str, held: Any, *, goes_on: bool = False) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}
    member = {kind.get(type(held), "numberValue"): "NULL_VALUE" if held is None else held}
    return {"jsonPath": path, **member, **({"willContinue": True} if goes_on else {})}


DONE = chunk({"functionCall": {}})

# name: the chunks after the name, and the arguments.
PIECES: dict[str, tuple[list[Any], Any]] = {
    "nothing": ([DONE], {}),
    "values": (
        [piece(value("$.a", "x"), value("$.b", 1.5)), piece(value("$.c", True)), DONE],
        {"a": "x", "b": 1.5, "c": True},
    ),
    "null": ([piece(value("$.a", None)), DONE], {"a": None}),
    "a text in pieces": (
        [
            piece(value("$.a", "Bos", goes_on=True)),
            piece(value("$.a", "ton", goes_on=True)),
            piece(value("$.a", "")),
            DONE,
        ],
        {"a": "Boston"},
    ),
    "a text that is given anew": (
        [piece(value("$.a", "x")), piece(value("$.a", "y")), DONE],
        {"a": "y"},
    ),
    "objects and arrays": (
        [
            piece(value("$.r.items[0].name", "a"), value("$.r.items[0].n", 1)),
            piece(value("$.r.items[1].name", "b"), value("$['odd key'][\"x.y\"][0][0]", 7)),
            DONE,
        ],
        {"r": {"items": [{"name": "a", "n": 1}, {"name": "b"}]}, "odd key": {"x.y": [[7]]}},
    ),
    "no end": ([piece(value("$.a", "x", goes_on=True))], {"a": "x"}),
    "paths that lead nowhere": (
        [
            piece(value("$.a", "x"), value("$.a.b", 1), value("$.a[0]", 1), value("$[0]", 1)),
            piece(value("$.c[999999]", 1), value("$..", 1), value("", 1), value("$", 1)),
            DONE,
        ],
        {"a": "x", "c": []},
    ),
    "the rest at once": (
        [piece(value("$.a", "x")), chunk({"functionCall": {"args": {"b": 2}}})],
        {"a": "x", "b": 2},
    ),
}


@each("name", PIECES)
def test_arguments_are_put_together(name: str) -> None:
    chunks, arguments = PIECES[name]
    _, first, second, *rest = events_from("native", sse(began(), *chunks, STOP))
    assert first == CallBegan(0, "f", "f")
    assert isinstance(second, CallDelta)
    assert json.loads(second.arguments) == arguments
    assert rest[0] == Finished("tool_calls")


def test_next_call_ends_the_one_before() -> None:
    chunks = [began("f"), piece(value("$.a", "x")), began("g"), piece(value("$.b", "y")), STOP]
    found = events_from("native", sse(*chunks))
    assert found[1:5] == [
        CallBegan(0, "f", "f"),
        CallDelta(0, '{"a":"x"}'),
        CallBegan(1, "g", "g"),
        CallDelta(1, '{"b":"y"}'),
    ]


def test_piece_of_no_call_says_nothing() -> None:
    found = events_from("native", sse(piece(value("$.a", "x")), DONE, STOP))
    assert not any(isinstance(event, CallBegan | CallDelta) for event in found)


@cases(
    "args, arguments",
    (None, "{}"),
    ({}, "{}"),
    ({"a": None}, '{"a":null}'),
    ('{"a": 1}', '{"a": 1}'),
    ("", "{}"),
    ([1], "[1]"),
)
def test_arguments_of_other_types_are_kept_as_json(args: Any, arguments: str) -> None:
    stated = chunk({"functionCall": {"name": "f", "args": args}}, finishReason="STOP")
    found = events_from("native", sse(stated))
    assert found[2] == CallDelta(0, arguments)
