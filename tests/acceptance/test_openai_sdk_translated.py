"""The official library of chat-completions and responses on channels of the other protocols (T1,
T2), and beside them on its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.acceptance.translated import CHAT_TOOLS, PNG, SETTINGS, TWO_CALLS, USAGE, sent, told_to
from tests.support.house import House
from tests.support.tenants import Tenant

# The house of this module.
__all__ = ["SETTINGS"]

ON_ALL = pytest.mark.parametrize("of_model", ["gpt", "claude", "gemini"])
WHOLE_AND_STREAMED = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
TOOLS: Any = CHAT_TOOLS[:1]
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def sdk(h: House, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client


@ON_ALL
@WHOLE_AND_STREAMED
def test_answer_has_text_and_usage(
    h: House, sdk: OpenAI, tenant: Tenant, of_model: str, is_stream: bool
) -> None:
    told_to(h, of_model, text="Grüße, 世界", chars_per_event=2, usage=USAGE)
    asked: dict[str, Any] = {"model": of_model, "messages": HELLO, "max_completion_tokens": 500}
    if is_stream:
        with sdk.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **asked
        ) as stream:
            chunks = list(stream)
        said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        usage, finish = chunks[-1].usage, chunks[-2].choices[0].finish_reason
    else:
        answer = sdk.chat.completions.create(**asked)
        said = answer.choices[0].message.content
        usage, finish = answer.usage, answer.choices[0].finish_reason
    assert (said, finish) == ("Grüße, 世界", "stop")
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert (
        usage.prompt_tokens,
        usage.prompt_tokens_details.cached_tokens,
        usage.completion_tokens,
    ) == (1000, 400, 100)
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_640_000


@ON_ALL
@WHOLE_AND_STREAMED
def test_tool_calls_and_their_results_make_two_turns(
    h: House, sdk: OpenAI, of_model: str, is_stream: bool
) -> None:
    told_to(h, of_model, tool_calls=TWO_CALLS)
    messages: list[Any] = [{"role": "user", "content": "The weather in both?"}]
    if is_stream:
        with sdk.chat.completions.stream(
            model=of_model, messages=messages, tools=TOOLS, tool_choice="required"
        ) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = (
            sdk.chat.completions.create(
                model=of_model, messages=messages, tools=TOOLS, tool_choice="required"
            )
            .choices[0]
            .message
        )
    calls = message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [
        call["arguments"] for call in TWO_CALLS
    ]
    h.upstream.reset()
    messages += [
        message.to_dict(),
        *(
            {"role": "tool", "tool_call_id": call.id, "content": f"{degrees} degrees"}
            for call, degrees in zip(calls, (7, 9), strict=True)
        ),
    ]
    second = sdk.chat.completions.create(model=of_model, messages=messages, tools=TOOLS)
    assert second.choices[0].finish_reason == "stop"
    if of_model == "gemini":
        _, called, answered = sent(h)["contents"]
        assert called["parts"][0]["thoughtSignature"] == "c2ltdWxhdGVkLXRob3VnaHQ="
        assert [part["functionResponse"]["response"] for part in answered["parts"]] == [
            {"output": "7 degrees"},
            {"output": "9 degrees"},
        ]


@ON_ALL
@WHOLE_AND_STREAMED
def test_thoughts_are_members_beside_the_text_and_may_be_sent_back(
    h: House, sdk: OpenAI, of_model: str, is_stream: bool
) -> None:
    told_to(h, of_model, reasoning_text="Let me think.", text="Four.")
    asked: dict[str, Any] = {"model": of_model, "reasoning_effort": "low"}
    if is_stream:
        with sdk.chat.completions.stream(messages=HELLO, **asked) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = sdk.chat.completions.create(messages=HELLO, **asked).choices[0].message
    said = message.to_dict()
    assert said["content"] == "Four."
    assert said["reasoning_content"] == "Let me think."
    h.upstream.reset()
    turns: list[Any] = [*HELLO, said, {"role": "user", "content": "And then?"}]
    second = sdk.chat.completions.create(messages=turns, **asked)
    assert second.choices[0].message.content
    if of_model == "claude":
        first_block = sent(h)["messages"][1]["content"][0]
        assert first_block["type"] == "thinking"
        assert first_block["signature"]


@ON_ALL
def test_image_goes_over(h: House, sdk: OpenAI, of_model: str) -> None:
    content: Any = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    sdk.chat.completions.create(model=of_model, messages=[{"role": "user", "content": content}])
    assert PNG in json.dumps(sent(h))


@ON_ALL
def test_error_within_a_stream_is_raised(h: House, sdk: OpenAI, of_model: str) -> None:
    told_to(h, of_model, events=30, error_event=10, message="The model fell over.")
    stream = sdk.chat.completions.create(model=of_model, messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="The model fell over"):
        list(stream)


# --- Responses ---


def test_response_has_text_and_usage(h: House, sdk: OpenAI, tenant: Tenant) -> None:
    told_to(h, "codex", text="Grüße, 世界", usage=USAGE)
    answer = sdk.responses.create(model="codex", input="Hello", instructions="Be brief.")
    assert (answer.status, answer.output_text) == ("completed", "Grüße, 世界")
    assert answer.usage is not None
    assert answer.usage.input_tokens_details.cached_tokens == 400
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_640_000
    # A string is refused by the upstream: it goes there as one turn of the user's (contract §7).
    assert sent(h)["input"][0]["role"] == "user"


def test_response_stream_counts_its_events_up(h: House, sdk: OpenAI, tenant: Tenant) -> None:
    told_to(h, "codex", text="Grüße, 世界", chars_per_event=2, usage=USAGE)
    with sdk.responses.stream(model="codex", input="Hello") as stream:
        events = list(stream)
        whole = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert events[-1].type == "response.completed"
    assert whole.output_text == "Grüße, 世界"
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_640_000


@WHOLE_AND_STREAMED
def test_response_calls_a_function_and_reads_its_result(
    h: House, sdk: OpenAI, is_stream: bool
) -> None:
    told_to(h, "codex", tool_calls=TWO_CALLS)
    tools: Any = [{"type": "function", "strict": False, **CHAT_TOOLS[0]["function"]}]
    turns: list[Any] = [{"role": "user", "content": "The weather in both?"}]
    if is_stream:
        with sdk.responses.stream(model="codex", input=turns, tools=tools) as stream:
            first: Any = stream.get_final_response()
    else:
        first = sdk.responses.create(model="codex", input=turns, tools=tools)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [json.loads(call.arguments) for call in calls] == [
        call["arguments"] for call in TWO_CALLS
    ]
    h.upstream.reset()
    turns += [call.to_dict() for call in calls]
    turns += [
        {"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees"}
        for call in calls
    ]
    second = sdk.responses.create(model="codex", input=turns, tools=tools)
    assert second.status == "completed"
    assert "7 degrees" in second.output_text


def test_stored_conversations_are_refused_by_name(h: House, sdk: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        sdk.responses.create(model="codex", input="Hello", previous_response_id="resp_1")
    assert h.upstream.stats()["requests"] == 0
