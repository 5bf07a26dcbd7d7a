"""Thinking and sampling by the generation of the messages model, on every way into messages."""

from typing import Any

from channels.dialects.messages.generations import generation_of
from channels.translation.losses import LossReport
from channels.translation.model import Protocol
from channels.translation.session import codec
from tests.support.rows import cases
from tests.unit.translation.pieces import USER, call, calls, result, tool, user

BUDGETS = (
    "claude-haiku-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-opus-4-1",
    "claude-3-7-sonnet-20250219",
    "claude-sonnet-4-20250514",
    "claude-sonnet-4@20250514",
    "claude-opus-4-1@20250805",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic/claude-sonnet-4.5",
    "anthropic/claude-3.7-sonnet:thinking",
    "claude-4-sonnet",
    "claude-opus-41",
    "claude45-sonnet",
)
BOTH = ("claude-opus-4-6", "claude-sonnet-4-6", "anthropic.claude-opus-4-6-v1", "claude-sonnet-4.6")
ADAPTIVE = (
    *("claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5", "claude-fable-5"),
    *("claude-haiku-5-5-20260901", "anthropic.claude-opus-5-v1:0", "claude-mythos-preview"),
    *("claude-next", "claude-zeta-20270101", "Claude-Opus-9"),
)
NONE = ("claude-3-5-sonnet-v2@20241022", "claude-3-haiku-20240307", "anthropic.claude-v2:1")
OTHERS = ("deepseek-chat", "kimi-k2", "glm-4.7", "up")
MAX_TOKENS = 16000


def sent(
    client: Protocol, model: str, max_tokens: int = MAX_TOKENS, **members: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body for a messages upstream, and what is in the warning."""
    message: dict[str, Any] = {
        "chat": {"messages": [USER]},
        "responses": {"input": [USER]},
        "native": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    }[client]
    report = LossReport()
    request = codec(client).decode_request({**message, **members})
    body = codec("messages").encode_request(
        request, model=model, stream=False, max_tokens=max_tokens, report=report
    )
    return body, report.dropped


def thinking(**config: Any) -> dict[str, Any]:
    return {"generationConfig": {"thinkingConfig": config}}


WAYS: tuple[tuple[Protocol, dict[str, Any], str], ...] = (
    ("chat", {"reasoning_effort": "medium"}, "reasoning_effort"),
    ("responses", {"reasoning": {"effort": "medium"}}, "reasoning.effort"),
    (
        "native",
        thinking(thinkingLevel="MEDIUM"),
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
)


@cases("way", *WAYS)
@cases("model", *BUDGETS)
def test_level_becomes_a_budget_up_to_4_5(way: Any, model: str) -> None:
    client, members, field = way
    body, dropped = sent(client, model, **members)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "output_config" not in body
    assert dropped == [field]


@cases("way", *WAYS)
def test_opus_4_5_takes_a_budget_and_a_level(way: Any) -> None:
    client, members, _ = way
    body, dropped = sent(client, "claude-opus-4-5-20251101", **members)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert body["output_config"] == {"effort": "medium"}
    assert dropped == []


@cases("way", *WAYS)
@cases("model", *BOTH, *ADAPTIVE, *OTHERS)
def test_level_stays_a_level_from_4_6(way: Any, model: str) -> None:
    client, members, _ = way
    body, dropped = sent(client, model, **members)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "medium"}
    assert dropped == []


@cases(
    "effort, max_tokens, budget",
    ("minimal", 16000, 1024),
    ("low", 16000, 4096),
    ("high", 16000, 12800),
    ("high", 64000, 24576),
    ("max", 64000, 32768),
    ("high", 1200, 1024),
    ("low", 1024, None),
)
def test_budget_of_a_level_leaves_room_for_the_answer(
    effort: str, max_tokens: int, budget: int | None
) -> None:
    body, dropped = sent("chat", "claude-haiku-4-5", max_tokens, reasoning_effort=effort)
    found = body.get("thinking", {}).get("budget_tokens")
    assert found == budget
    assert dropped == ["reasoning_effort"]


@cases("model", *BUDGETS, *BOTH, *OTHERS)
def test_budget_stays_a_budget_up_to_4_6(model: str) -> None:
    body, dropped = sent("native", model, **thinking(thinkingBudget=5000))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert "output_config" not in body
    assert dropped == []


@cases("budget, effort", (1024, "low"), (5000, "medium"), (30000, "high"))
@cases("model", *ADAPTIVE)
def test_budget_becomes_a_level_from_4_7(model: str, budget: int, effort: str) -> None:
    members = thinking(thinkingBudget=budget, includeThoughts=True)
    body, dropped = sent("native", model, **members)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}
    assert dropped == ["generationConfig.thinkingConfig.thinkingBudget"]


def test_model_that_cannot_decide_gets_a_budget() -> None:
    body, dropped = sent("native", "claude-opus-4-1", **thinking(thinkingBudget=-1))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert dropped == ["generationConfig.thinkingConfig"]
    assert sent("native", "claude-opus-4-8", **thinking(thinkingBudget=-1)) == (
        {**body, "model": "claude-opus-4-8", "thinking": {"type": "adaptive"}},
        [],
    )


@cases(
    "model, effort, expected",
    ("claude-opus-4-6", "xhigh", "high"),
    ("claude-opus-4-6", "max", "max"),
    ("claude-opus-4-5", "max", "high"),
    ("claude-opus-4-7", "xhigh", "xhigh"),
    ("claude-opus-4-7", "minimal", "low"),
)
def test_level_that_the_model_lacks_is_the_next_below(
    model: str, effort: str, expected: str
) -> None:
    body, dropped = sent("chat", model, 64000, reasoning_effort=effort)
    assert body["output_config"]["effort"] == expected
    assert dropped == ([] if effort == expected else ["reasoning_effort"])


@cases("model", *NONE)
def test_model_without_thinking_does_not_think(model: str) -> None:
    body, dropped = sent("chat", model, reasoning_effort="high", temperature=0.2)
    assert (body.get("thinking"), body.get("output_config")) == (None, None)
    assert body["temperature"] == 0.2
    assert dropped == ["reasoning_effort"]


@cases(
    "model, switched, effort",
    ("claude-3-5-haiku-latest", None, None),
    ("claude-haiku-4-5", {"type": "disabled"}, None),
    ("claude-opus-4-6", {"type": "disabled"}, None),
    ("claude-opus-4-7", None, None),
    ("claude-opus-5", {"type": "disabled"}, None),
    ("claude-opus-5-5", None, "low"),
    ("claude-fable-5", None, "low"),
    ("claude-next", None, "low"),
    ("up", {"type": "disabled"}, None),
)
def test_thinking_is_switched_off_as_the_model_takes_it(
    model: str, switched: Any, effort: str | None
) -> None:
    for client, members, field in (
        ("chat", {"reasoning_effort": "none"}, "reasoning_effort"),
        ("native", thinking(thinkingBudget=0), "generationConfig.thinkingConfig"),
    ):
        body, dropped = sent(client, model, **members)
        assert body.get("thinking") == switched
        assert body.get("output_config") == (None if effort is None else {"effort": effort})
        assert dropped == ([] if effort is None else [field])


@cases("model", *ADAPTIVE)
def test_no_sampling_from_4_7(model: str) -> None:
    assert not generation_of(model).takes_sampling
    body, dropped = sent("chat", model, temperature=0.2, top_p=0.9, top_k=5)
    assert not body.keys() & {"temperature", "top_p", "top_k"}
    assert dropped == ["temperature", "top_p", "top_k"]
    body, dropped = sent("responses", model, top_p=0.9)
    assert "top_p" not in body
    assert dropped == ["top_p"]
    body, dropped = sent("native", model, generationConfig={"temperature": 1.5, "topK": 3})
    assert not body.keys() & {"temperature", "top_k"}
    assert dropped == ["generationConfig.temperature", "generationConfig.topK"]


@cases("model", *ADAPTIVE)
def test_default_sampling_loses_nothing(model: str) -> None:
    body, dropped = sent("chat", model, temperature=1, top_p=1)
    assert not body.keys() & {"temperature", "top_p"}
    assert dropped == []


@cases("model", *BUDGETS, *BOTH, *NONE, *OTHERS)
def test_sampling_up_to_4_6(model: str) -> None:
    body, dropped = sent("chat", model, temperature=0.2, top_k=5)
    assert (body["temperature"], body["top_k"]) == (0.2, 5)
    assert dropped == []


def test_level_amid_calls_without_their_thought_is_no_budget() -> None:
    body, dropped = sent(
        "chat",
        "claude-haiku-4-5",
        messages=[user("go"), calls(call("c1")), result("c1", "4")],
        reasoning_effort="high",
    )
    assert "thinking" not in body
    assert dropped == ["reasoning_effort"]


@cases("model, effort", ("claude-haiku-4-5", None), ("claude-opus-4-7", "high"))
def test_forced_call_excludes_thinking(model: str, effort: str | None) -> None:
    body, dropped = sent(
        "chat", model, tools=[tool()], tool_choice="required", reasoning_effort="high"
    )
    assert "thinking" not in body
    assert body.get("output_config", {}).get("effort") == effort
    assert dropped == ([] if effort else ["reasoning_effort"])


ENDS_WITH_THE_MODEL = [USER, {"role": "assistant", "content": "{"}]


@cases("model", *BUDGETS, *NONE, *OTHERS)
def test_beginning_of_an_answer_up_to_4_5(model: str) -> None:
    body, dropped = sent("chat", model, messages=ENDS_WITH_THE_MODEL)
    assert body["messages"][-1] == {"role": "assistant", "content": "{"}
    assert dropped == []


@cases("model", *BOTH, *ADAPTIVE)
def test_user_has_the_last_turn_from_4_6(model: str) -> None:
    for client, members, field in (
        ("chat", {"messages": ENDS_WITH_THE_MODEL}, "messages.role"),
        ("responses", {"input": ENDS_WITH_THE_MODEL}, "input.role"),
        (
            "native",
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "hi"}]},
                    {"role": "model", "parts": [{"text": "{"}]},
                ]
            },
            "contents.role",
        ),
    ):
        body, dropped = sent(client, model, **members)
        assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]
        assert dropped == [field]


def test_user_has_the_last_turn_where_the_model_thinks() -> None:
    body, dropped = sent(
        "chat", "claude-haiku-4-5", messages=ENDS_WITH_THE_MODEL, reasoning_effort="high"
    )
    assert body["messages"][-1]["role"] == "user"
    assert dropped == ["reasoning_effort", "messages.role"]


@cases(
    "model, members, keeps",
    ("claude-sonnet-4-5", {}, False),
    ("claude-sonnet-4-5", {"reasoning_effort": "none"}, False),
    ("claude-sonnet-4-5", {"reasoning_effort": "low"}, True),
    ("claude-sonnet-4-6", {}, True),
    ("claude-opus-5", {}, True),
    ("up", {}, True),
)
def test_last_thought_goes_with_thinking_alone_up_to_4_5(
    model: str, members: dict[str, Any], keeps: bool
) -> None:
    proof = {"type": "reasoning.text", "text": "t", "signature": "s"}
    proof["format"] = "anthropic-claude-v1"
    asked = calls(call("c"), reasoning_details=[proof])
    messages = [USER, asked, result("c", "9")]
    body, dropped = sent("chat", model, messages=messages, tools=[tool()], **members)
    kinds = [block["type"] for block in body["messages"][1]["content"]]
    assert kinds == (["thinking", "tool_use"] if keeps else ["tool_use"])
    assert ("messages.reasoning_content" in dropped) != keeps
