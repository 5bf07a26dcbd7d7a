"""Arguments of calls: as objects, and in pieces, wherever they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.translation.call_arguments import (
    Arguments,
    WaitingArguments,
    arguments_object,
    object_in,
)


def test_arguments_are_an_object_whatever_they_are() -> None:
    assert arguments_object('{"a": 1}') == {"a": 1}
    assert arguments_object("  ") == {}
    for text in ("[1]", "{", "7", '"x"', "null" + " " * 20 + "x"):
        assert arguments_object(text) == {"raw_arguments": text}
    assert object_in('{"a": "\\ud83d"}') == {"a": "\ud83d"}
    assert object_in("[" * 100_000) is None


TEXTS = [
    "{}",
    ' {"a": [1, {"b": "}"}], "c\\"}": "\\\\"} ',
    '{"a": "\\u00e9{"}',
    "[1]",
    '{"a": 1}}',
    "{} x",
    '"{}"',
    "x{}",
    '{"a": {"b": 1}',
    "}",
]


@pytest.mark.parametrize("text", TEXTS)
@given(cuts=st.lists(st.integers(0, 40), max_size=6))
def test_whole_wherever_they_are_cut(text: str, cuts: list[int]) -> None:
    arguments = Arguments()
    ends = [*sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        arguments.add(text[start:end])
        arguments.is_whole()
    assert arguments.is_whole() == (object_in(text) is not None)
    assert arguments.text() == text


def test_nothing_is_not_whole() -> None:
    arguments = Arguments()
    arguments.add("")
    assert not arguments.is_whole()


def test_arguments_wait_while_they_may_be_none() -> None:
    waiting = WaitingArguments()
    assert not waiting
    for piece in (" nu", "ll"):
        waiting.add(piece)
        assert waiting.take() is None
    waiting.add("x")
    assert waiting.take() == " nullx"
    assert not waiting
