"""Values of log fields, the lag of the loop, and the commit of a release."""

import uuid
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import ujson
from hypothesis import given
from hypothesis import strategies as st

from metrics.plain_values import DEPTH_MAX, ITEMS_MAX, TEXT_CHARACTERS_MAX, plain
from tests.support.rows import cases


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int


class Grumpy:
    def __str__(self) -> str:
        raise RuntimeError("no")


class GrumpyMapping(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


@cases(
    "value, shown",
    (None, None),
    (True, True),
    (3, 3),
    (Level.HIGH, 3),
    (2**80, str(2**80)),
    (1.5, 1.5),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    ("text", "text"),
    (Decimal("0.10"), "0.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
    (Colour.RED, "Colour.RED"),
    (Point(x=1), "Point(x=1)"),
    (b"caf\xc3\xa9 \xff", "café \ufffd"),
    (ValueError("bad"), "ValueError: bad"),
    (TimeoutError(), "TimeoutError"),
    ([1, (2, "a")], [1, [2, "a"]]),
    (frozenset({1}), [1]),
    ({"a": {"b": [1]}}, {"a": {"b": [1]}}),
    (UserDict({1: "one"}), {"1": "one"}),
    (Grumpy(), "<unprintable Grumpy: RuntimeError>"),
    (GrumpyMapping(), "<unreadable GrumpyMapping: RuntimeError>"),
)
def test_value_of_any_kind_becomes_plain(value: object, shown: object) -> None:
    assert plain(value) == shown


def test_secrets_are_masked_at_every_depth() -> None:
    secret = "Bearer abcdef"
    assert plain({"headers": [("a", secret)], "Bearer xyz": secret.encode()}) == {
        "headers": [["a", "Bearer ***"]],
        "Bearer ***": "Bearer ***",
    }


def test_field_named_as_a_secret_is_masked_whole() -> None:
    assert plain({"x-api-key": "plain words", "password": ["a"], "key": "key_1"}) == {
        "x-api-key": "***",
        "password": "***",
        "key": "key_1",
    }


def test_value_that_holds_itself_ends() -> None:
    knot: dict[str, Any] = {}
    knot["self"] = knot
    shown = plain(knot)
    for _ in range(DEPTH_MAX - 1):
        shown = shown["self"]
    assert isinstance(shown["self"], str)


def test_wide_value_is_cut() -> None:
    assert len(plain(list(range(10 * ITEMS_MAX)))) == ITEMS_MAX
    assert len(plain({str(n): n for n in range(10 * ITEMS_MAX)})) == ITEMS_MAX


def test_long_text_is_cut_and_says_so() -> None:
    shown = plain("a b " * 50_000)
    assert len(shown) < TEXT_CHARACTERS_MAX + 30
    assert shown.endswith("… (200000 characters)")


def test_long_text_shows_no_part_of_a_secret() -> None:
    key = "sk-platform-" + "ab" * 32
    for shift in range(80):
        shown = plain("a " * ((TEXT_CHARACTERS_MAX - 2 * shift) // 2) + key + " tail" * 5000)
        assert "sk-platform-abab" + "a" not in shown


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner)
    ),
    max_leaves=20,
)


@given(anything)
def test_whatever_is_plain_can_be_written(value: object) -> None:
    written = ujson.dumps(plain(value))
    assert "\n" not in written
    ujson.loads(written)


@given(st.text(st.characters(categories=("Cs", "Cc", "Lu")), max_size=20))
def test_surrogates_and_control_characters_can_be_written(value: str) -> None:
    ujson.dumps(plain({value: value})).encode("ascii")
