"""Function calls whose arguments come value by value, as newer upstreams stream them."""

import json
from typing import Any

from channels.translation.events import CallBegan, CallDelta, Finished
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import chunk
from tests.unit.translation.translated import events_from, sse

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
