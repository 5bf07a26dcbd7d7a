"""The official library of the messages protocol, on its own channel and on a chat one (T3)."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic
from anthropic.types import MessageParam, ToolParam

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.translated import SCHEMA, SETTINGS, TWO_CALLS, USAGE, direct
from tests.support.rows import each

# The deployment of this module.
__all__ = ["SETTINGS"]

TOOLS: list[ToolParam] = [
    {"name": "weather", "description": "The weather in a city", "input_schema": SCHEMA}
]
HELLO: list[MessageParam] = [{"role": "user", "content": "Hello"}]
ON_BOTH = pytest.mark.parametrize("of_model", ["claude", "gpt", "codex"])


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[Anthropic]:
    with Anthropic(base_url=h.gateway.url, api_key=tenant.key, max_retries=0) as client:
        yield client


@ON_BOTH
def test_answer_has_text_and_usage(
    h: Deployment, sdk: Anthropic, tenant: Tenant, of_model: str
) -> None:
    direct(h, of_model, text="Grüße, 世界", usage=USAGE)
    response = sdk.messages.create(
        model=of_model, max_tokens=500, messages=HELLO, system="Be brief.", stop_sequences=["Ω"]
    )
    (block,) = response.content
    assert block.type == "text"
    assert block.text == "Grüße, 世界"
    assert (response.type, response.role, response.stop_reason) == (
        "message",
        "assistant",
        "end_turn",
    )
    usage = response.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (
        600,
        400,
        100,
    )
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_640_000
    body = h.upstream.last_body()
    if of_model == "claude":
        assert body["system"] == "Be brief."
    elif of_model == "codex":
        assert (body["instructions"], body["max_output_tokens"]) == ("Be brief.", 500)
    else:
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert body["max_completion_tokens"] == 500


@ON_BOTH
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_tool_calls_and_their_results_make_two_turns(
    h: Deployment, sdk: Anthropic, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, tool_calls=TWO_CALLS)
    request: dict[str, Any] = {
        "model": of_model,
        "max_tokens": 500,
        "tools": TOOLS,
        "tool_choice": {"type": "any"},
    }
    messages: list[MessageParam] = [{"role": "user", "content": "The weather in both?"}]
    if is_stream:
        with sdk.messages.stream(messages=messages, **request) as stream:
            first = stream.get_final_message()
    else:
        first = sdk.messages.create(messages=messages, **request)
    calls = [block for block in first.content if block.type == "tool_use"]
    assert first.stop_reason == "tool_use"
    assert [(call.name, call.input) for call in calls] == [
        (call["name"], call["arguments"]) for call in TWO_CALLS
    ]
    h.upstream.reset()
    messages += [
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": f"{degrees} degrees"}
                for call, degrees in zip(calls, (7, 9), strict=True)
            ],
        },
    ]
    second = sdk.messages.create(model=of_model, max_tokens=500, messages=messages, tools=TOOLS)
    assert second.stop_reason == "end_turn"
    if of_model == "gpt":
        results = [one for one in h.upstream.last_body()["messages"] if one["role"] == "tool"]
        assert [one["content"] for one in results] == ["7 degrees", "9 degrees"]
        assert [one["tool_call_id"] for one in results] == [call.id for call in calls]


@ON_BOTH
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_thinking_comes_before_the_text_and_may_be_sent_back(
    h: Deployment, sdk: Anthropic, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, reasoning_text="Let me think.", text="Four.")
    request: dict[str, Any] = {
        "model": of_model,
        "max_tokens": 4000,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    if is_stream:
        with sdk.messages.stream(messages=HELLO, **request) as stream:
            first = stream.get_final_message()
    else:
        first = sdk.messages.create(messages=HELLO, **request)
    thought = first.content[0]
    assert [block.type for block in first.content] == ["thinking", "text"]
    assert thought.type == "thinking"
    assert thought.thinking == "Let me think."
    assert thought.signature
    h.upstream.reset()
    turns: list[MessageParam] = [
        *HELLO,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "And then?"},
    ]
    assert sdk.messages.create(messages=turns, **request).stop_reason == "end_turn"
    body = h.upstream.last_body()
    if of_model == "gpt":
        assert body["messages"][1]["reasoning_content"] == "Let me think."
    elif of_model == "claude":
        assert body["messages"][1]["content"] == [block.to_dict() for block in first.content]
    else:
        (returned,) = [one for one in body["input"] if one["type"] == "reasoning"]
        assert returned["summary"][0]["text"] == "Let me think."


@each("of_model", ["claude", "gpt", "codex"])
@each(
    "status, kind",
    [
        (400, anthropic.BadRequestError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
    ],
)
def test_errors_are_the_librarys_own(
    h: Deployment, sdk: Anthropic, of_model: str, status: int, kind: type[anthropic.APIStatusError]
) -> None:
    direct(h, of_model, status=status, message="No, not this.")
    with pytest.raises(kind, match="No, not this"):
        sdk.messages.create(model=of_model, max_tokens=500, messages=HELLO)


@ON_BOTH
def test_error_within_a_stream_is_raised(h: Deployment, sdk: Anthropic, of_model: str) -> None:
    direct(h, of_model, events=30, error_event=10, message="The model fell over.")
    with (
        pytest.raises(anthropic.APIStatusError, match="The model fell over"),
        sdk.messages.stream(model=of_model, max_tokens=500, messages=HELLO) as stream,
    ):
        stream.get_final_message()


def test_unknown_model_and_unknown_key_are_refused(h: Deployment, sdk: Anthropic) -> None:
    # The gateway answers 400 where this protocol itself would say 404 (reference 1.7).
    with pytest.raises(anthropic.BadRequestError) as unknown:
        sdk.messages.create(model="no-such-model", max_tokens=5, messages=HELLO)
    body: Any = unknown.value.body
    assert body["error"]["type"] == "not_found_error"
    with (
        Anthropic(base_url=h.gateway.url, api_key="sk-platform-" + "0" * 64) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model="claude", max_tokens=5, messages=HELLO)


def test_beta_features_reach_a_channel_of_this_protocol(h: Deployment, sdk: Anthropic) -> None:
    response = sdk.beta.messages.create(
        model="claude",
        max_tokens=500,
        messages=[{"role": "user", "content": "Hello"}],
        betas=["context-1m-2025-08-07"],
    )
    assert response.stop_reason == "end_turn"
    headers = {k.lower(): v for k, v in h.upstream.last_request()["headers"].items()}
    assert headers["anthropic-beta"] == "context-1m-2025-08-07"


def test_models_come_by_page_and_by_id(h: Deployment, sdk: Anthropic) -> None:
    every = [one["id"] for one in SETTINGS["models"]]
    first = sdk.models.list(limit=4)
    assert [model.id for model in first] == every  # page after page
    assert [model.id for model in first.data] == every[:4]
    assert [model.id for model in sdk.models.list(before_id=every[3], limit=2).data] == every[1:3]
    model = sdk.models.retrieve("claude")
    assert (model.id, model.display_name, model.type) == ("claude", "claude", "model")
    assert model.created_at.year >= 1970
    assert model.max_tokens == 1000
    with pytest.raises(anthropic.NotFoundError) as caught:
        sdk.models.retrieve("gone")
    assert caught.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]


@ON_BOTH
def test_tokens_are_counted_for_nothing(h: Deployment, of_model: str) -> None:
    poor = h.tenant(nano_usd=0)
    with Anthropic(base_url=h.gateway.url, api_key=poor.key, max_retries=0) as sdk:
        counted = sdk.messages.with_raw_response.count_tokens(
            model=of_model, messages=HELLO, system="Be brief.", tools=TOOLS
        )
        assert counted.headers["x-token-count"] == "estimate"
        assert 350 < counted.parse().input_tokens < 450
        with pytest.raises(anthropic.BadRequestError) as caught:
            sdk.messages.count_tokens(model="gone", messages=HELLO)
    assert caught.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    assert poor.client.get("/v1/logs").json["data"] == []
