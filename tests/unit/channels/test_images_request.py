"""Images: requests that are taken and refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.dialect import renamed_body
from channels.dialects.images.request import pixels_of, read_request
from channels.errors import InvalidRequest
from tests.support.rows import cases, each

GOOD: dict[str, Any] = {"model": "m", "prompt": "a boat"}
URL = "https://pictures.example/a.png?x=1"
ABSENT = object()


def body(**members: Any) -> bytes:
    whole = {**GOOD, **members}
    return json.dumps({k: v for k, v in whole.items() if v is not ABSENT}).encode()


def refused(raw: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read_request(raw)
    return caught.value


def test_smallest_request_asks_for_one_image() -> None:
    read = read_request(body())
    assert (read.model, read.count_max, read.size, read.references) == ("m", 1, None, 0)


def test_nulls_are_as_good_as_nothing() -> None:
    nothing = dict.fromkeys(("n", "size", "image", "response_format", "stream"))
    read = read_request(body(**nothing))
    assert (read.count_max, read.size, read.references) == (1, None, 0)


@cases(
    "members, most",
    ({"num_images": 4}, 4),
    ({"n": 3, "batch_size": 2}, 3),
    ({"num_outputs": "8"}, 8),
    ({"number_of_images": 10**6}, 100),
    ({"max_images": 7.0, "num_images": [5], "batch_size": "all", "num_outputs": None}, 7),
    ({"num_images": "7." + "0" * 100}, 100),
    ({"sequential_image_generation": "auto"}, 15),
    ({"sequential_image_generation": "disabled"}, 1),
    ({"sequential_image_generation_options": {"max_images": 4}}, 1),
    *(
        ({"sequential_image_generation": "auto", "sequential_image_generation_options": o}, most)
        for o, most in (({"max_images": 4}, 4), ({}, 15), (None, 15), ({"max_images": "x"}, 1))
    ),
)
def test_members_of_providers_ask_for_more_than_n(members: dict[str, Any], most: int) -> None:
    assert read_request(body(**members)).count_max == most


@each(
    "member, value",
    [
        ("model", ABSENT),
        ("model", ""),
        ("model", 5),
        ("model", "m" * 257),
        ("model", "a\u0000b"),
        ("prompt", ABSENT),
        ("prompt", ""),
        ("prompt", " \n\t "),
        ("prompt", None),
        ("prompt", 5),
        ("prompt", ["a boat"]),
        ("n", 0),
        ("n", 11),
        ("n", -1),
        ("n", 2**70),
        ("n", True),
        ("n", "3"),
        ("n", 1.5),
        ("n", [1]),
        ("size", ""),
        ("size", 1024),
        ("size", ["1024x1024"]),
        ("size", "1" * 65),
        ("image", []),
        ("image", URL),
        ("image", {}),
        ("image", [URL] * 11),
        ("response_format", ""),
        ("response_format", "png"),
        ("response_format", {"type": "url"}),
        ("stream", True),
        ("stream", "false"),
        ("stream", 0),
    ],
)
def test_bad_member_is_named(member: str, value: Any) -> None:
    fault = refused(body(**{member: value}))
    assert fault.param == member
    assert fault.message.startswith(member)


@cases(
    "reference",
    None,
    5,
    {},
    "",
    "a.png",
    "ftp://a.example/b",
    "https://",
    "http:///a",
    "file:///etc/passwd",
    "https://a.example/b c",
    "data:text/html;base64,AAAA",
    "data:image/png;base64,",
)
def test_reference_that_is_no_image_url_is_named_by_its_place(reference: Any) -> None:
    assert refused(body(image=[URL, reference])).param == "image[1]"


@cases("url", URL, "HTTP://A.example", "data:image/png;base64,iVBORw0KGgo=")
def test_references_are_counted(url: str) -> None:
    assert read_request(body(image=[url] * 10)).references == 10


@cases("size", "1024x1024", "2K", "auto", "16:9", "1024×1024")
def test_any_word_for_a_size_is_taken(size: str) -> None:
    assert read_request(body(size=size)).size == size


def test_another_spelling_of_a_member_is_refused() -> None:
    assert refused(b'{"model":"m","prompt":"a","N":10}').param == "N"
    assert refused(b'{"model":"m","prompt":"a","n":1,"n":10}').param == "n"


@cases("raw", b"", b"[]", b"null", b'"a"', b"{", b'{"model":"m"}}', b"\xff")
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    refused(raw)


def test_upstream_gets_the_bytes_but_for_the_name() -> None:
    raw = b'{ "prompt":"a \\u0041", "n" : 2,"model": "m", "seed":1e3,"sim":{"x":[1, 2]} }'
    read = read_request(raw)
    assert renamed_body(read, upstream_model="m") is raw
    assert renamed_body(read, upstream_model="v/\u00fc") == raw.replace(
        b'"model": "m"', '"model": "v/\u00fc"'.encode()
    )


def test_log_shows_settings_and_lengths_but_no_words() -> None:
    read = read_request(body(n=2, size="1x1", seed=7, user="someone", image=[URL]))
    assert read.parameters == {
        "n": "2",
        "size": "1x1",
        "seed": "7",
        "prompt_characters": "6",
        "reference_images": "1",
    }


@cases(
    "size, pixels",
    ("1024x1024", 1_048_576),
    ("1536X1536", 2_359_296),
    ("0x5", None),
    ("1024", None),
    ("1024x", None),
    ("-1x5", None),
    ("1024x1024 ", None),
    ("٣x٣", None),
    ("9999999x1", None),
    ("auto", None),
)
def test_area_of_a_size(size: str, pixels: int | None) -> None:
    assert pixels_of(size) == pixels


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["model", "prompt", "size", "n", "image", "response_format", "stream"]),
        _JSON,
    )
)
def test_any_members_are_read_or_refused(members: dict[str, Any]) -> None:
    try:
        read = read_request(json.dumps({**GOOD, **members}).encode())
    except InvalidRequest:
        return
    assert 1 <= read.count_max <= 10
    assert 0 <= read.references <= 10


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    refused(raw)
