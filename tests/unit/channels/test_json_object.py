"""A JSON object found by its members, edited, and refused with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.json.json_object import MEMBERS_MAX, InvalidJson, JsonObject
from tests.support.nesting import BOTTOMLESS
from tests.support.rows import cases, each

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Few letters, so that one name is often the beginning of another, and values alike.
NAMES = st.text(alphabet='ab"\\é🙂\n ', max_size=4)
SPACES = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def objects(draw: st.DrawFn, *, unique: bool) -> tuple[bytes, list[tuple[str, Any]]]:
    """JSON text of an object with white space anywhere, and its members in order."""
    names = draw(st.lists(NAMES, max_size=6, unique=unique))
    values = [draw(VALUES | st.sampled_from([1, 12, 123, "a", ""])) for _ in names]
    is_compact = draw(st.booleans())

    def space() -> str:
        return "" if is_compact else draw(SPACES)

    members = []
    for name, value in zip(names, values, strict=True):
        quoted = json.dumps(name, ensure_ascii=draw(st.booleans()))
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        members.append(f"{space()}{quoted}{space()}:{space()}{text}{space()}")
    text = f"{space()}{{{','.join(members) or space()}}}{space()}"
    return text.encode(), list(zip(names, values, strict=True))


@settings(deadline=None)
@given(objects(unique=True))
def test_members_are_found_where_they_are(made: tuple[bytes, list[tuple[str, Any]]]) -> None:
    body, members = made
    parsed = JsonObject.parse(body)
    assert list(parsed.raw) == [name for name, _ in members]
    for name, value in members:
        start, end = parsed.span(name)
        assert body[start:end] == bytes(parsed.raw[name])
        assert json.loads(body[start:end]) == value


@settings(deadline=None)
@given(objects(unique=False))
def test_name_that_is_there_twice_is_refused(made: tuple[bytes, list[tuple[str, Any]]]) -> None:
    body, members = made
    names = [name for name, _ in members]
    if len(set(names)) == len(names):
        assert list(JsonObject.parse(body).raw) == names
    else:
        with pytest.raises(InvalidJson, match="more than once") as caught:
            JsonObject.parse(body)
        assert names.count(caught.value.param or "") > 1


@settings(deadline=None)
@given(objects(unique=True), st.data())
def test_edits_change_what_they_name_and_nothing_else(
    made: tuple[bytes, list[tuple[str, Any]]], data: st.DataObject
) -> None:
    body, members = made
    names = [name for name, _ in members]
    replaced = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    renamed = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    edited = JsonObject.parse(body).edited(
        replace=dict.fromkeys(replaced, b'{"new": 1}'),
        add={"added_1": b"1", "added_2": b"[2]"},
        rename={name: f"renamed_{names.index(name)}" for name in renamed},
    )
    expected = [
        (f"renamed_{at}" if name in renamed else name, {"new": 1} if name in replaced else value)
        for at, (name, value) in enumerate(members)
    ]
    expected += [("added_1", 1), ("added_2", [2])]
    assert json.loads(edited, object_pairs_hook=list) == json.loads(
        json.dumps(dict(expected)), object_pairs_hook=list
    )


@settings(deadline=None)
@given(objects(unique=True))
def test_no_edit_gives_the_same_object_back(made: tuple[bytes, list[tuple[str, Any]]]) -> None:
    body, members = made
    parsed = JsonObject.parse(body)
    same = {name: bytes(parsed.raw[name]) for name, _ in members}
    assert parsed.edited(replace={}, add={}) is body
    assert parsed.edited(replace=same, add={}) is body


def test_white_space_stays_where_it_is() -> None:
    body = b' {\n  "model" : "a" ,\n  "n":1\r\n}\n'
    edited = JsonObject.parse(body).edited(
        replace={"model": b'"b"'}, add={"x": b"true"}, rename={"n": "m"}
    )
    assert edited == b' {\n  "model" : "b" ,\n  "m":1\r\n,"x":true}\n'


@each(
    "body, words",
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"1", "must be a JSON object"),
        (b"{", "breaks off at byte 1"),
        (b'{"a', "breaks off at byte 3"),
        (b'{"a":"x', "breaks off at byte 7"),
        (b'{"a":[1,2', "breaks off at byte 9"),
        (b'{"a":1}{', "at byte 8"),
        (b'{"a":1} x', "at byte 9"),
        (b"{'a':1}", "at byte 1"),
        (b"{a:1}", "at byte 1"),
        (b'{"a":1,}', "at byte 7"),
        (b"{,}", "at byte 1"),
        (b'{"a" 1}', "at byte 5"),
        (b'{"a":NaN}', "at byte 5"),
        (b'{"a":[-Infinity]}', "at byte 7"),
        (b'{"a":Infinity}', "at byte 5"),
        (b'{"a":nul}', "byte"),
        (b'{"a":01}', "byte"),
        (b'{"a":1.}', "byte"),
        (b'{"a":.5}', "byte"),
        (b'{"a":+1}', "byte"),
        (b'{"a":"\t"}', "at byte 6"),
        (b'{"a":"\x00"}', "at byte 6"),
        (b'{"a":"\\x"}', "byte"),
        (b'{"a":"\\u12"}', "byte"),
        (b'{"a":"\\ud800"}', "lone surrogate"),
        (b'{"a":"\\ud800 and more text"}', "lone surrogate"),
        (b'{"a":"\\udc00 and more text"}', "lone surrogate"),
        (b'{"a":"\\ud800\\u0041 and more"}', "lone surrogate"),
        (b'{"\\ud800":1}', "lone surrogate"),
        (b'{"a":"\xff"}', "not valid UTF-8: byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8: byte 6"),
        (b'{"a":"\xc3"}', "not valid UTF-8: byte 6"),
        (b'{"\xff":1}', "not valid UTF-8: byte 2"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "at byte 0"),
        (b'{"a":' + b"[" * BOTTOMLESS + b"]" * BOTTOMLESS + b"}", "nested too deeply"),
        (b'{"a":' + b'{"b":' * BOTTOMLESS + b"1" + b"}" * BOTTOMLESS + b"}", "nested too deeply"),
        (b"[" * 100_000, "must be a JSON object"),
    ],
)
def test_body_that_is_not_one_json_object_is_refused_with_a_reason(body: bytes, words: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        JsonObject.parse(body)
    assert words in caught.value.message
    assert caught.value.param is None


@cases(
    "body",
    b'{"a":1,"a":2}',
    b'{"a":1,"a":1}',
    b'{"a":12,"a":1}',
    b'{"a":1,"a":12}',
    b'{"a":1,"\\u0061":1}',
    b'{"\\u0061":1,"a":1}',
    b'{"b":0,"a":[1],"c":{"a":1},"a":[1]}',
    b'{ "a" : 1 , "a" : 1 }',
)
def test_member_twice_names_the_member(body: bytes) -> None:
    with pytest.raises(InvalidJson, match="'a'") as caught:
        JsonObject.parse(body)
    assert caught.value.param == "a"


def test_same_name_at_another_level_is_another_member() -> None:
    assert list(JsonObject.parse(b'{"a":{"a":1},"b":[{"a":2}]}').raw) == ["a", "b"]


def test_too_many_members_are_refused() -> None:
    names = b",".join(b'"m%d":1' % number for number in range(MEMBERS_MAX + 1))
    with pytest.raises(InvalidJson, match="more than 1000 members"):
        JsonObject.parse(b"{" + names + b"}")


def test_object_that_is_forgotten_is_empty() -> None:
    forgotten = JsonObject.parse(b'{"a": 1}')
    forgotten.forget()
    assert (forgotten.body, forgotten.raw, forgotten.outline) == (b"{}", {}, b"{}")
    assert forgotten.edited(replace={}, add={"b": b"2"}) == JsonObject.parse(b"{}").edited(
        replace={}, add={"b": b"2"}
    )
