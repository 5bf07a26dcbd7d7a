"""Turns, normalised."""

from channels.translation.model import Text, ToolResult, Turn
from channels.translation.turns import merged


def test_turns_merge_and_results_come_first() -> None:
    one, two = Text("1"), Text("2")
    result = ToolResult("c", None, ())
    turns = merged(
        [
            Turn("user", (one,), "ada"),
            Turn("assistant", ()),
            Turn("user", (result,), "ada"),
            Turn("user", (two,)),
            Turn("assistant", (one,)),
        ]
    )
    assert turns == (Turn("user", (result, one, two)), Turn("assistant", (one,)))
    assert merged([Turn("user", (one,), "ada"), Turn("user", (two,), "ada")])[0].name == "ada"
