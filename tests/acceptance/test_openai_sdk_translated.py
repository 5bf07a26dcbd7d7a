"""The official library of chat-completions and responses on channels of the other protocols, and
beside them on its own."""

import json
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.translated import CHAT_TOOLS, SETTINGS, TWO_CALLS, direct
from tests.support.rows import each

# The deployment of this module.
__all__ = ["SETTINGS"]

TRANSLATED = pytest.mark.parametrize("of_model", ["gpt", "claude", "gemini"])
ON_ALL = pytest.mark.parametrize("of_model", ["gpt", "claude", "gemini", "codex"])
WHOLE_AND_STREAMED = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
TOOLS: Any = CHAT_TOOLS[:1]
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


@ON_ALL
@WHOLE_AND_STREAMED
def test_tool_calls_and_their_results_make_two_turns(
    h: Deployment, sdk: OpenAI, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, tool_calls=TWO_CALLS)
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
        _, called, served = h.upstream.last_body()["contents"]
        assert called["parts"][0]["thoughtSignature"] == "c2ltdWxhdGVkLXRob3VnaHQ="
        assert [part["functionResponse"]["response"] for part in served["parts"]] == [
            {"output": "7 degrees"},
            {"output": "9 degrees"},
        ]


@ON_ALL
@WHOLE_AND_STREAMED
def test_thoughts_are_members_beside_the_text_and_may_be_sent_back(
    h: Deployment, sdk: OpenAI, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, reasoning_text="Let me think.", text="Four.")
    request: dict[str, Any] = {"model": of_model, "reasoning_effort": "low"}
    if is_stream:
        with sdk.chat.completions.stream(messages=HELLO, **request) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = sdk.chat.completions.create(messages=HELLO, **request).choices[0].message
    stated = message.to_dict()
    assert stated["content"] == "Four."
    assert stated["reasoning_content"] == "Let me think."
    h.upstream.reset()
    turns: list[Any] = [*HELLO, stated, {"role": "user", "content": "And then?"}]
    second = sdk.chat.completions.create(messages=turns, **request)
    assert second.choices[0].message.content
    if of_model == "claude":
        first_block = h.upstream.last_body()["messages"][1]["content"][0]
        assert first_block["type"] == "thinking"
        assert first_block["signature"]


@TRANSLATED
@WHOLE_AND_STREAMED
def test_thought_comes_back_in_its_place_with_what_proves_it(
    h: Deployment, sdk: OpenAI, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, reasoning_text="Let me think.", tool_calls=TWO_CALLS[:1])
    tools: Any = [{"type": "function", "strict": False, **CHAT_TOOLS[0]["function"]}]
    request: dict[str, Any] = {
        "model": of_model,
        "tools": tools,
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    turns: list[Any] = [{"role": "user", "content": "The weather?"}]
    if is_stream:
        with sdk.responses.stream(input=turns, **request) as stream:
            first: Any = stream.get_final_response()
    else:
        first = sdk.responses.create(input=turns, **request)
    assert first.output[0].type == "reasoning"
    assert first.output[0].summary[0].text == "Let me think."
    called = first.output[-1]
    h.upstream.reset()
    turns += [item.to_dict() for item in first.output]
    turns.append({"type": "function_call_output", "call_id": called.call_id, "output": "7"})
    second = sdk.responses.with_raw_response.create(input=turns, **request)
    body = h.upstream.last_body()
    # Nothing but what the protocol cannot ask for is lost.
    lost = "reasoning.summary" if of_model == "gpt" else None
    assert second.headers.get("x-protocol-warning") == lost
    if of_model == "claude":
        thinking, call = body["messages"][1]["content"]
        assert (thinking["type"], thinking["thinking"]) == ("thinking", "Let me think.")
        assert thinking["signature"]
        assert call["type"] == "tool_use"
    elif of_model == "gemini":
        assert body["contents"][1]["parts"][-1]["thoughtSignature"] == "c2ltdWxhdGVkLXRob3VnaHQ="
    else:
        assert body["messages"][1]["reasoning_content"] == "Let me think."


def test_an_agents_prompt_is_marked_for_the_cache_and_what_is_written_there_is_charged(
    h: Deployment, sdk: OpenAI, tenant: Tenant
) -> None:
    """Not where its tokens would be no cheaper to read, nor a single call's."""
    tool: Any = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    request: dict[str, Any] = {"input": "Hello", "instructions": "Be brief.", "tools": [tool]}
    usage = {"input": 1000, "output": 100, "cached": 400, "cache_write": 200}
    direct(h, "claude", usage=usage, times=2)
    sdk.responses.create(model="writing", prompt_cache_key="one", **request)
    mark = {"cache_control": {"type": "ephemeral"}}
    body = h.upstream.last_body()
    assert body["system"] == [{"type": "text", "text": "Be brief.", **mark}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hello", **mark}]
    assert body["tools"][0]["cache_control"] == mark["cache_control"]
    # 400 fresh x 1 + 400 cached x 0.1 + 200 written x 1.25 + 100 out x 10 USD per million.
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_690_000
    sdk.responses.create(model="writing", extra_headers={"session-id": "two"}, **request)
    assert h.upstream.last_body()["system"] == body["system"]
    assert tenant.client.remaining_nano_usd() == 10**9 - 2 * 1_690_000
    unnamed = {"user": "one", "instructions": "Be kind."}  # which were not sent before
    for of_model, more in (("unread", {"prompt_cache_key": "one"}), ("writing", unnamed)):
        sdk.responses.create(model=of_model, **{**request, **more})
        assert "cache_control" not in json.dumps(h.upstream.last_body())
    sdk.responses.create(model="writing", **{**request, **unnamed})
    assert h.upstream.last_body()["system"] == [{"type": "text", "text": "Be kind.", **mark}]


@TRANSLATED
def test_tools_that_are_no_functions_are_called_as_what_they_are(
    h: Deployment, sdk: OpenAI, of_model: str
) -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    reads = {"type": "function", "name": "read", "parameters": {"type": "object"}}
    tools: Any = [
        {"type": "custom", "name": "apply_patch", "description": "Edit.", "format": grammar},
        {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [reads]},
    ]
    made = [
        {"name": "apply_patch", "arguments": {"input": "*** Begin\n+é"}},
        {"name": "mcp__files__read", "arguments": {"path": "a"}},
    ]
    direct(h, of_model, tool_calls=made)
    with sdk.responses.stream(model=of_model, input="Go on.", tools=tools) as stream:
        events = list(stream)
        # A signature of the model's is an item before the call that it belongs to.
        called: Any = stream.get_final_response().output[-2:]
    custom, read = called
    edited = ("custom_tool_call", "apply_patch", "*** Begin\n+é")
    assert (custom.type, custom.name, custom.input) == edited
    deltas = [one for one in events if one.type == "response.custom_tool_call_input.delta"]
    assert "".join(one.delta for one in deltas) == custom.input
    assert (read.type, read.name, read.namespace) == ("function_call", "read", "mcp__files")
    h.upstream.reset()
    turns: Any = [
        {"role": "user", "content": "Go on."},
        custom.to_dict(),
        read.to_dict(),
        {"type": "custom_tool_call_output", "call_id": custom.call_id, "output": "Done."},
        {"type": "function_call_output", "call_id": read.call_id, "output": "text"},
    ]
    assert sdk.responses.create(model=of_model, input=turns, tools=tools).status == "completed"
    assert "mcp__files__read" in json.dumps(h.upstream.last_body())


@each("of_model", ["codex", "gpt", "claude", "gemini"])
def test_error_within_a_response_is_raised(h: Deployment, sdk: OpenAI, of_model: str) -> None:
    direct(h, of_model, events=30, error_event=10, message="The model fell over.")
    stream = sdk.responses.create(model=of_model, input="Hello", stream=True)
    with pytest.raises(openai.APIError, match="The model fell over"):
        list(stream)
