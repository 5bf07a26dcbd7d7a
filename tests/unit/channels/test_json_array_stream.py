"""A native-content stream as one JSON array."""

import json

from channels.dialects.gemini.array_stream import ArrayFraming


def test_elements_make_an_array_of_the_same_bytes() -> None:
    framing = ArrayFraming()
    sent = [b'{"a": 1}', b'{\n"b":"\xc3\xa9"}', b"{}"]
    array = b"".join([*map(framing.element, sent), framing.end()])
    assert array == b'[{"a": 1},\r\n{\n"b":"\xc3\xa9"},\r\n{}]'
    assert json.loads(array) == [json.loads(element) for element in sent]


def test_stream_of_nothing_is_an_empty_array() -> None:
    assert ArrayFraming().end() == b"[]"


def test_error_that_comes_in_an_array_is_an_element() -> None:
    framing = ArrayFraming()
    parts = [framing.element(b"{}"), framing.element(b' [{"error":{}}] '), framing.end()]
    assert b"".join(parts) == b'[{},\r\n{"error":{}}]'
    assert framing.element(b"[]") == b""


def test_cut_stream_leaves_the_array_open() -> None:
    framing = ArrayFraming()
    assert framing.element(b"{}") == b"[{}"
