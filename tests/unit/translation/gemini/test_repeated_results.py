"""Results that a native-content client repeats under one id: each call has one upstream."""

from typing import Any

from tests.support.rows import cases
from tests.unit.translation.gemini.pieces import HI, call, model, result, user
from tests.unit.translation.translated import translated

FIELD = "contents.parts.functionResponse"
FIRST = result("f", {"output": "4"}, id="a")
OTHER = result("g", {"output": "5"}, id="b")
CALLS = model(call("f", {}, id="a"), call("g", {}, id="b"))


def results_in(upstream: Any, contents: list[Any]) -> tuple[list[tuple[str, Any]], list[str]]:
    """The ids and texts of the results that the upstream is sent, and the warning."""
    sent, dropped = translated("native", upstream, {"contents": contents})
    if upstream == "responses":
        found = [one for one in sent["input"] if one["type"] == "function_call_output"]
        return [(one["call_id"], one["output"]) for one in found], dropped
    if upstream == "chat":
        found = [one for one in sent["messages"] if one["role"] == "tool"]
        return [(one["tool_call_id"], one["content"]) for one in found], dropped
    blocks = [
        block
        for message in sent["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
    ]
    found = [block for block in blocks if block["type"] == "tool_result"]
    return [(block["tool_use_id"], block["content"]) for block in found], dropped


@cases("upstream", "chat", "messages", "responses")
@cases(
    "contents",
    [user(FIRST, OTHER, FIRST, OTHER)],
    [user(FIRST, OTHER), user(FIRST, OTHER)],
    [user(FIRST), user(OTHER, FIRST), model({"text": "x"}), user(OTHER), user({"text": "y"})],
)
def test_one_result_for_each_id_goes_upstream(upstream: str, contents: list[Any]) -> None:
    found, dropped = results_in(upstream, [HI, CALLS, *contents])
    assert found == [("a", "4"), ("b", "5")]
    assert dropped == [FIELD]


@cases("upstream", "chat", "messages", "responses")
def test_calls_that_share_an_id_have_a_result_each(upstream: str) -> None:
    again = result("f", {"output": "6"}, id="a")
    contents = [HI, model(call("f", {}, id="a")), user(FIRST), model(call("f", {}, id="a"))]
    found, dropped = results_in(upstream, [*contents, user(again)])
    assert [text for _, text in found] == ["4", "6"]
    assert dropped == []


def test_results_without_an_id_are_not_compared() -> None:
    unnamed = result("f", {"output": "4"})
    found, dropped = results_in("chat", [HI, model(call("f"), call("f")), user(unnamed, unnamed)])
    assert [text for _, text in found] == ["4", "4"]
    assert dropped == []
