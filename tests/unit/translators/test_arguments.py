"""When the pieces of a call's arguments are an object, wherever they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.json import object_in
from channels.translation.tool_calls import Arguments, WaitingArguments

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
