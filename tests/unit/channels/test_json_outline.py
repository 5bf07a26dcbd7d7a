"""The outline of a body: shorter, and the same in everything but the insides of long strings."""

import base64
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.json.json_object import JsonObject
from channels.json.outline import KEPT_BYTES, RUN_BYTES, outline
from tests.support.rows import cases

IMAGE = base64.b64encode(bytes(range(256)) * (RUN_BYTES // 128)).decode()


def shortened(value: object) -> object:
    """What an outline may have made of a value: its long strings by their ends."""
    if isinstance(value, str) and len(value.encode()) >= RUN_BYTES:
        return value[: KEPT_BYTES // 4], value[-KEPT_BYTES // 4 :]
    if isinstance(value, list):
        return [shortened(one) for one in value]
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    return value


def read(text: bytes) -> object:
    """An outline's value, by the same rule: what is left of a long string is long enough."""

    def ends(value: object) -> object:
        if isinstance(value, str) and len(value.encode()) >= 2 * KEPT_BYTES:
            return value[: KEPT_BYTES // 4], value[-KEPT_BYTES // 4 :]
        if isinstance(value, list):
            return [ends(one) for one in value]
        if isinstance(value, dict):
            return {name: ends(one) for name, one in value.items()}
        return value

    return ends(json.loads(text))


LONG = st.sampled_from(
    [IMAGE, "é" + IMAGE, "日本d" * (RUN_BYTES // 4), "a word " * 20_000, "7" * 90_000]
)
SHORT = st.text(max_size=9) | st.integers() | st.none() | st.sampled_from(['"', "\\", "d", 'd\\"'])
NUMBERS = st.just([10] * (RUN_BYTES // 2))  # no quotation mark in it, and yet no string
OUTLINED = st.recursive(
    SHORT | LONG | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(OUTLINED, st.booleans(), st.sampled_from([None, 1]))
def test_only_the_insides_of_long_strings_are_left_out(
    value: object, is_ascii: bool, indent: int | None
) -> None:
    body = json.dumps({"a": value}, ensure_ascii=is_ascii, indent=indent).encode()
    assert read(outline(body)) == shortened({"a": value})


@cases("before", "", '"', "\\", "é", "x" * (RUN_BYTES - 40))
def test_image_is_left_out_wherever_it_stands(before: str) -> None:
    body = json.dumps({"before": before, "image": IMAGE, "after": [1, IMAGE]}).encode()
    assert len(outline(body)) < len(before) + 10 * KEPT_BYTES


@cases("text", IMAGE + " .", IMAGE + "\n", "7" * (2 * RUN_BYTES), "short")
def test_body_without_encoded_bytes_is_its_own_outline(text: str) -> None:
    body = json.dumps({"text": text}).encode()
    assert JsonObject.parse(body).outline is body
