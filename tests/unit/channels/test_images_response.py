"""An images response, counted."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.images.response import parse_response
from channels.errors import UpstreamMalformed
from channels.json.weight import EVENT_VALUES_MAX
from tests.support.rows import cases


def counted(**members: Any) -> int:
    return len(parse_response(json.dumps(members).encode()).images)


def test_links_and_pictures_count_with_their_size() -> None:
    read = parse_response(
        json.dumps(
            {
                "model": "v/p",
                "data": [
                    {"url": "https://a.example/1", "size": "10x20"},
                    {"b64_json": "aGk=", "size": "auto"},
                    {"url": "https://a.example/2", "b64_json": "aGk="},
                ],
                "usage": {"generated_images": 9},
            }
        ).encode()
    )
    assert [(image.url, image.pixels) for image in read.images] == [
        ("https://a.example/1", 200),
        (None, None),
        ("https://a.example/2", None),
    ]
    assert (read.model, read.error) == ("v/p", None)


@cases(
    "entry",
    {},
    {"url": ""},
    {"url": None, "b64_json": None},
    {"url": 5},
    {"b64_json": ["aGk="]},
    {"error": {"code": "sensitive", "message": "no"}},
    None,
    "https://a.example/1",
    7,
    1.5,
    True,
    ["https://a.example/1"],
)
def test_entry_without_an_image_does_not_count(entry: Any) -> None:
    assert counted(data=[{"url": "https://a.example/1"}, entry]) == 1


def test_no_images_are_an_answer() -> None:
    assert counted(data=[]) == 0


def test_error_in_an_answer_is_reported_unless_there_are_images() -> None:
    failed = parse_response(b'{"error": {"message": "too busy"}}')
    assert (failed.images, failed.error) == ([], "too busy")
    assert parse_response(b'{"data": [], "error": 5}').error is not None
    assert parse_response(b'{"data": [], "error": null}').error is None
    some = b'{"data": [{"url": "u"}], "error": {"message": "one failed"}}'
    assert parse_response(some).error is None


@cases(
    "body",
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"data": null}',
    b'{"data": {"url": "u"}}',
    b'{"data": "u"}',
    b'{"data": [{"url": "u"}]',
    b"<html>",
    b"\xff\xfe",
    b'{"data": 5, "error": null}',
)
def test_what_is_no_images_answer_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        parse_response(body)


def test_picture_of_many_megabytes_is_stepped_over() -> None:
    picture = b"A" * 30_000_000
    entry = b'{"b64_json":"%b"}' % picture
    read = parse_response(b'{"data":[%b,%b]}' % (entry, entry))
    assert len(read.images) == 2


@cases("odd", b'"\\ud83d"', b'"\xff"', b'"a\tb"', b"NaN")
def test_odd_text_beside_an_image_does_not_cost_it(odd: bytes) -> None:
    body = b'{"data": [{"url": "https://a.example/1", "revised_prompt": %b}]}' % odd
    (image,) = parse_response(body).images
    assert image.url == "https://a.example/1"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_ENTRY = st.dictionaries(st.sampled_from(["url", "b64_json", "size", "error"]), _VALUES) | _VALUES


@given(data=st.lists(_ENTRY, max_size=5) | _VALUES, error=_VALUES)
def test_any_answer_is_counted_or_malformed(data: Any, error: Any) -> None:
    body = json.dumps({"data": data, "error": error}).encode()
    try:
        read = parse_response(body)
    except UpstreamMalformed:
        return
    assert len(read.images) <= (len(data) if isinstance(data, list) else 0)


@given(st.binary())
def test_any_bytes_are_counted_or_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        parse_response(body)


@cases(
    "rest",
    b'"x": [' + b"1," * EVENT_VALUES_MAX + b"1]",
    b'"data": [' + b'{"url": "h"},' * EVENT_VALUES_MAX + b"1]",
)
def test_answer_that_would_hold_the_loop_up_is_not_decoded(rest: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        parse_response(b'{"data": [{"url": "h"}], ' + rest + b"}")
