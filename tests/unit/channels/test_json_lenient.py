"""JSON read by the most forgiving rules."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from channels.json.lenient import characters_of, dumps, length_of, raw_of, read_json, read_loosely
from tests.support.rows import cases

OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
).filter(lambda value: isinstance(value, dict | list))


@cases(
    "text, value",
    (b'{"a":1}', {"a": 1}),
    (b' {"a":"x\ty"} ', {"a": "x\ty"}),
    (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
    (b'{"a":"\xff"}', {"a": "\ufffd"}),
    (b'\xef\xbb\xbf{"a":[1]', {"a": [1]}),
    (b'{"a":NaN,"b":-Infinity}', {"a": None, "b": None}),
    (b'{"a":{"b":[1,{"c":"}"}', {"a": {"b": [1, {"c": "}"}]}}),
    (b'{"a":"\\"}"', {"a": '"}'}),
    (b"", None),
    (b"not json", None),
    (b'{"a":', None),
    (b'{"a":"x', None),
    (b'{"a":1]', None),
    (b'{"a":1}}', None),
    (b'{"a":1,', None),
    (b"[" * 100_000, None),
)
def test_value_is_read_where_there_is_one(text: bytes, value: Any) -> None:
    assert read_loosely(text) == value


@given(OBJECTS, st.booleans())
def test_closing_brackets_may_be_missing_at_the_end(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    bare = text.rstrip(b"]}")
    for end in range(len(bare), len(text) + 1):
        assert read_loosely(text[:end]) == value
        if end < len(text):
            assert read_loosely(text[:end], mends=False) is None


@cases(
    "value, count",
    ("abc", 3),
    ([{"type": "text", "text": "ab"}, {"refusal": "c"}, "d", 7, None], 4),
    ({"content": [{"thinking": "abc"}], "signature": "not counted"}, 3),
    (7, 0),
    (None, 0),
)
def test_characters_are_those_of_text(value: Any, count: int) -> None:
    assert characters_of(value) == count


@cases(
    "text, count",
    (b'"abc"', 3),
    (b'"\\u00e9\\ud83d\\ude42"', 2),
    (b'{ "a" : [ 1 ] }', len('{"a":[1]}')),
    (b"null", 0),
    (b"{}", 0),
    (b"{ }", 0),
    (b"12", 2),
    (b'"\\ud83d"', 0),
)
def test_length_is_that_of_the_value_without_white_space(text: bytes, count: int) -> None:
    assert length_of(msgspec.Raw(text)) == count


@given(OBJECTS)
def test_raw_text_reads_as_the_value_again(value: Any) -> None:
    assert msgspec.json.decode(raw_of(value)) == value


def test_raw_text_of_a_lone_surrogate_can_be_read() -> None:
    assert msgspec.json.decode(raw_of({"a": "x\ud83d"})) == {"a": "x?"}


@cases("depth", 10, 2_000, 100_000)
def test_depth_is_no_reason_not_to_count(depth: int) -> None:
    text = b"[" * depth + b"]" * depth
    assert length_of(msgspec.Raw(text)) == 2 * depth


def test_JSON_is_read_and_written_forgivingly() -> None:
    assert read_json(b'{"a": 1e400}') == {"a": float("inf")}
    assert read_json(b"\xff") is None
    assert dumps({"a": "é"}) == '{"a":"é"}'.encode()
    assert dumps({"a": "\ud83dé"}) == b'{"a":"\\ud83d\\u00e9"}'
