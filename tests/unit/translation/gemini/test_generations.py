"""The least thinking, and the levels, by the generation of the native-content model."""

from typing import Any

from channels.translation.losses import LossReport
from channels.translation.session import codec
from tests.support.rows import cases
from tests.unit.translation.pieces import USER


def sent(model: str, **members: Any) -> tuple[dict[str, Any] | None, list[str]]:
    """The thinking config for a model of what a responses client asks, and the warning."""
    report = LossReport()
    request = codec("responses").decode_request({"input": [USER], **members})
    body = codec("native").encode_request(
        request, model=model, stream=False, max_tokens=9000, report=report
    )
    return body["generationConfig"].get("thinkingConfig"), report.dropped


@cases(
    "model, expected",
    ("gemini-2.5-pro", {"thinkingBudget": 128}),
    ("models/gemini-2.5-pro-preview-06-05", {"thinkingBudget": 128}),
    ("gemini-3-pro-preview", {"thinkingLevel": "LOW"}),
    ("gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}),
    ("google/gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}),
    ("gemini-2-5-pro", {"thinkingBudget": 128}),
    ("databricks-gemini-3-1-pro", {"thinkingLevel": "LOW"}),
    ("gemini-4-pro", {"thinkingLevel": "LOW"}),
    ("gemini-pro-latest", {"thinkingLevel": "LOW"}),
    ("gemini-3-flash-preview", {"thinkingLevel": "MINIMAL"}),
    ("gemini-3.1-flash-lite", {"thinkingLevel": "MINIMAL"}),
    ("gemini-3.5-flash", {"thinkingLevel": "MINIMAL"}),
    ("gemini-3.7-flash", {"thinkingLevel": "LOW"}),
)
def test_thinking_that_cannot_be_switched_off_is_the_least(model: str, expected: Any) -> None:
    assert sent(model, reasoning={"effort": "none"}) == (expected, ["reasoning.effort"])


@cases("model", "gemini-2.5-flash", "gemini-2.5-flash-lite", "up", "gemma-4")
def test_thinking_is_switched_off_where_it_can_be(model: str) -> None:
    assert sent(model, reasoning={"effort": "none"}) == ({"thinkingBudget": 0}, [])


@cases(
    "model, effort, level",
    ("gemini-3-pro-preview", "minimal", "LOW"),
    ("gemini-3-pro-preview", "low", "LOW"),
    ("gemini-3-pro-preview", "medium", "HIGH"),
    ("gemini-3-pro-preview", "high", "HIGH"),
    ("gemini-3-pro-preview", "xhigh", "HIGH"),
    ("gemini-3.1-pro-preview", "minimal", "LOW"),
    ("gemini-3.1-pro-preview", "medium", "MEDIUM"),
    ("gemini-3.1-pro-preview", "max", "HIGH"),
    ("gemini-3-flash-preview", "minimal", "MINIMAL"),
    ("gemini-3-flash-preview", "medium", "MEDIUM"),
    ("gemini-3.8-flash", "minimal", "LOW"),
    ("up", "minimal", "MINIMAL"),
    ("up", "xhigh", "XHIGH"),
)
def test_level_that_the_model_lacks_is_the_next_one(model: str, effort: str, level: str) -> None:
    is_changed = level != effort.upper()
    assert sent(model, reasoning={"effort": effort}) == (
        {"thinkingLevel": level},
        ["reasoning.effort"] if is_changed else [],
    )


@cases("model", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.0-flash-thinking-exp")
def test_level_becomes_a_budget_before_generation_3(model: str) -> None:
    expected = {"thinkingBudget": 1024}
    assert sent(model, reasoning={"effort": "minimal"}) == (expected, ["reasoning.effort"])


@cases("model", "gemini-2.0-flash", "gemini-1.5-pro-002", "gemini-2.5-flash-image")
def test_nothing_is_written_of_thinking_to_a_model_without_it(model: str) -> None:
    assert sent(model, reasoning={"effort": "high"}) == (None, ["reasoning.effort"])
    assert sent(model, reasoning={"effort": "none"}) == (None, [])


@cases(
    "model, budget, expected",
    ("gemini-2.5-pro", 50, 128),
    ("gemini-2.5-pro", 60_000, 32_768),
    ("gemini-2.5-flash-lite", 50, 512),
    ("gemini-2.5-flash", 31_999, 24_576),
    ("gemini-3.1-pro-preview", 60_000, 32_768),
)
def test_budget_is_one_that_the_model_takes(model: str, budget: int, expected: int) -> None:
    report = LossReport()
    members = {"thinking": {"type": "enabled", "budget_tokens": budget, "display": "omitted"}}
    request = codec("messages").decode_request({"messages": [USER], **members})
    body = codec("native").encode_request(
        request, model=model, stream=False, max_tokens=64_000, report=report
    )
    config = {"thinkingBudget": expected, "includeThoughts": False}
    assert body["generationConfig"]["thinkingConfig"] == config
    assert report.dropped == ["thinking.budget_tokens"]


def penalties(model: str, value: float) -> tuple[dict[str, Any], list[str]]:
    """The penalties that a model is sent for a chat client's, and the warning."""
    report = LossReport()
    body = {"messages": [USER], "frequency_penalty": value, "presence_penalty": value}
    sent = codec("native").encode_request(
        codec("chat").decode_request(body),
        model=model,
        stream=False,
        max_tokens=9000,
        report=report,
    )
    config = sent["generationConfig"]
    return {name: config[name] for name in config if name.endswith("Penalty")}, report.dropped


NAMES = ["frequency_penalty", "presence_penalty"]


@cases("model", "gemini-2.5-pro", "gemini-2.5-flash-image", "gemini-3.1-pro", "gemini-flash-latest")
def test_penalties_are_left_out_from_2_5(model: str) -> None:
    assert penalties(model, 0.5) == ({}, NAMES)
    assert penalties(model, 0) == ({}, [])


@cases("model", "gemini-2.0-flash", "gemma-4", "up")
def test_penalties_go_to_models_that_take_them(model: str) -> None:
    assert penalties(model, 0.5) == ({"frequencyPenalty": 0.5, "presencePenalty": 0.5}, [])


@cases(
    "model, takes_prefill",
    ("gemini-2.5-flash", True),
    ("gemini-3-pro-preview", True),
    ("gemini-3.1-pro-preview", True),
    ("gemini-3.5-flash-lite", False),
    ("gemini-3.7-flash", False),
    ("gemini-flash-latest", False),
    ("up", True),
)
def test_the_user_has_the_last_word_where_the_model_takes_no_beginning(
    model: str, takes_prefill: bool
) -> None:
    report = LossReport()
    beginning = {"role": "assistant", "content": "{"}
    request = codec("responses").decode_request({"input": [USER, beginning]})
    body = codec("native").encode_request(
        request, model=model, stream=False, max_tokens=9000, report=report
    )
    last = body["contents"][-1]
    assert last == (
        {"role": "model", "parts": [{"text": "{"}]}
        if takes_prefill
        else {"role": "user", "parts": [{"text": "Continue."}]}
    )
    assert report.dropped == ([] if takes_prefill else ["input.role"])


@cases(
    "model, takes_both",
    ("gemini-2.5-flash", False),
    ("gemini-2.0-flash", False),
    ("gemini-3-flash-preview", True),
    ("gemini-flash-latest", True),
    ("up", True),
)
def test_json_is_asked_for_beside_functions_where_the_model_takes_both(
    model: str, takes_both: bool
) -> None:
    function = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    form = {"type": "json_schema", "name": "n", "schema": {"type": "string"}}
    for tools in ([], [function]):
        report = LossReport()
        body = {"input": [USER], "text": {"format": form}, "tools": tools}
        made = codec("native").encode_request(
            codec("responses").decode_request(body),
            model=model,
            stream=False,
            max_tokens=9000,
            report=report,
        )
        is_asked = takes_both or not tools
        assert ("responseSchema" in made["generationConfig"]) == is_asked
        assert report.dropped == ([] if is_asked else ["text.format"])
