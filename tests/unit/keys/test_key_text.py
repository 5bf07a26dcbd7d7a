"""Key texts: made, recognised, shown in part."""

from __future__ import annotations

import hashlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.keys.cache import is_key_text, legacy_hash, new_key_text, shown_prefix

GOOD = "sk-platform-" + "0123456789abcdef" * 4


def test_new_keys_are_well_formed_and_differ() -> None:
    keys = [new_key_text() for _ in range(100)]
    assert all(map(is_key_text, keys))
    assert {len(key) for key in keys} == {76}
    assert len(set(keys)) == 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-platform-",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        GOOD[:-1] + "\n",
        " " + GOOD[:-1],
        GOOD.upper(),
        GOOD[:-1] + "F",
        GOOD[:-1] + "g",
        GOOD[:-1] + "٣",
        "SK-platform-" + GOOD[12:],
        "sk_platform-" + GOOD[12:],
        "sk-platform" + GOOD[11:].replace("-", "0"),
        GOOD[12:],
        "\ud800" + GOOD[1:],
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    assert not is_key_text(text)
    assert len(legacy_hash(text)) == 32


@given(st.text(alphabet=string.hexdigits[:16], min_size=64, max_size=64))
def test_every_lower_case_hex_is_a_key(digits: str) -> None:
    assert is_key_text("sk-platform-" + digits)


@given(st.text(max_size=90))
def test_what_is_accepted_is_the_documented_format(text: str) -> None:
    is_documented = (
        len(text) == 76
        and text.startswith("sk-platform-")
        and set(text[12:]) <= set("0123456789abcdef")
    )
    assert is_key_text(text) == is_documented


@given(
    position=st.integers(min_value=0, max_value=75),
    character=st.characters(exclude_categories=()),
)
def test_one_changed_character_is_accepted_only_as_a_hex_digit(
    position: int, character: str
) -> None:
    text = GOOD[:position] + character + GOOD[position + 1 :]
    is_same = text == GOOD
    assert is_key_text(text) == (is_same or (position >= 12 and character in "0123456789abcdef"))


def test_shown_prefix_has_eight_digits() -> None:
    assert shown_prefix(GOOD) == "sk-platform-01234567"


def test_legacy_hash_is_plain_sha256() -> None:
    assert legacy_hash(GOOD) == hashlib.sha256(GOOD.encode()).digest()
