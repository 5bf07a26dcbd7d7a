"""Thoughts of chat upstreams: shown to clients of every protocol, and returned by them."""

from typing import Any

from tests.support.rows import cases
from tests.unit.translation.gemini.pieces import call as native_call
from tests.unit.translation.gemini.pieces import result as native_result
from tests.unit.translation.gemini.pieces import thought
from tests.unit.translation.pieces import USER, assistant, call, given, text, tool, use, user
from tests.unit.translation.translated import (
    data_of,
    events_from,
    response_to,
    sse,
    translated,
    whole,
    written,
)

UNSIGNED = "translated:unsigned"
THOUGHT = {"type": "thinking", "thinking": "Need the tool.", "signature": UNSIGNED}
NATIVE_HI = {"role": "user", "parts": [{"text": "hi"}]}


def streamed(*deltas: dict[str, Any], reason: str | None = "tool_calls") -> bytes:
    """A messages client's stream of a chat upstream's deltas."""
    chunks = [{"id": "u", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    last = {"id": "u", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    ending: list[dict[str, Any] | bytes] = [] if reason is None else [last, b"[DONE]"]
    return written("messages", events_from("chat", sse(*chunks, *ending)))


def called() -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, **call("c1")}]}


def kept(stream: bytes) -> list[dict[str, Any]]:
    """The content that a messages client puts together."""
    content: list[dict[str, Any]] = []
    for data in data_of(stream):
        if data["type"] == "content_block_start":
            content.append(dict(data["content_block"]))
        elif data["type"] == "content_block_delta":
            delta = {name: value for name, value in data["delta"].items() if name != "type"}
            for name, value in delta.items():
                content[-1][name] = content[-1].get(name, "") + value
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = {}
            block.pop("partial_json", None)
    return content


@cases("member", "reasoning_content", "reasoning", "thinking")
@cases("is_stream", True, False)
def test_thought_before_a_call_comes_back_by_a_messages_client(
    member: str, is_stream: bool
) -> None:
    if is_stream:
        content = kept(streamed({member: "Need "}, {member: "the tool."}, called()))
    else:
        message = {"content": None, member: "Need the tool.", "tool_calls": [call("c1")]}
        response = response_to("chat", {"choices": [{"message": message}]})
        content = whole("messages", response)["content"]
    assert content == [THOUGHT, use("c1")]
    turns = [USER, assistant(content), user([given("c1", "4")])]
    sent, dropped = translated("messages", "chat", {"messages": turns})
    assert sent["messages"][1] == {
        "role": "assistant",
        "tool_calls": [call("c1")],
        "reasoning_content": "Need the tool.",
    }
    assert dropped == []


def test_thought_is_streamed_as_it_comes_and_marked_when_it_ends() -> None:
    stream = streamed({"reasoning_content": "a"}, {"reasoning_content": "b"}, {"content": "x"})
    deltas = [data["delta"] for data in data_of(stream) if data["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "thinking_delta", "thinking": "b"},
        {"type": "signature_delta", "signature": UNSIGNED},
        {"type": "text_delta", "text": "x"},
    ]


def test_answer_of_thoughts_alone_ends_with_its_mark() -> None:
    content = kept(streamed({"reasoning_content": "Hm."}, reason="length"))
    assert content == [{**THOUGHT, "thinking": "Hm."}]


def test_cut_thought_has_no_mark() -> None:
    stream = streamed({"reasoning_content": "Hm."}, reason=None)
    assert b"signature_delta" not in stream
    assert b"message_stop" not in stream


def test_thoughts_between_texts_are_blocks_of_their_own() -> None:
    content = kept(
        streamed(
            {"reasoning": "a"}, {"content": "x"}, {"reasoning": "b"}, called(), {"content": ""}
        )
    )
    assert content == [
        {**THOUGHT, "thinking": "a"},
        text("x"),
        {**THOUGHT, "thinking": "b"},
        use("c1"),
    ]


def test_thought_after_a_call_that_is_not_whole_waits_for_it() -> None:
    begun = {"tool_calls": [{"index": 0, **call("c1", arguments='{"a"')}]}
    rest = {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}
    stream = streamed(begun, {"reasoning": "Hm."}, rest, {"content": "x"})
    kinds = [
        (data["type"].removeprefix("content_block_"), data.get("content_block", {}).get("type"))
        for data in data_of(stream)
        if data["type"] in ("content_block_start", "content_block_stop")
    ]
    assert kinds == [
        *(("start", "tool_use"), ("stop", None)),
        *(("start", "thinking"), ("stop", None)),
        *(("start", "text"), ("stop", None)),
    ]
    assert stream.index(UNSIGNED.encode()) < stream.index(b'"text_delta"')


@cases(
    "block",
    {**THOUGHT, "signature": "b3du"},
    {**THOUGHT, "signature": "translated:native:c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
)
def test_thought_that_another_provider_signed_stays_behind(block: dict[str, Any]) -> None:
    turns = [USER, assistant([block, use("c1")]), user([given("c1", "4")])]
    sent, dropped = translated("messages", "chat", {"messages": turns})
    assert sent["messages"][1] == {"role": "assistant", "tool_calls": [call("c1")]}
    assert dropped == ["messages.thinking"]


@cases(
    "lost",
    [],
    [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}],
    [{"type": "redacted_thinking", "data": "c2ln"}],
)
def test_each_turn_with_calls_has_a_thought_where_one_has(lost: list[Any]) -> None:
    turns = [
        *(USER, assistant([*lost, use("c1")]), user([given("c1", "4")])),
        *(assistant([THOUGHT, use("c2")]), user([given("c2", "5")]), assistant("Done."), USER),
    ]
    sent, _ = translated("messages", "chat", {"messages": turns})
    thoughts = [one.get("reasoning_content") for one in sent["messages"]]
    assert thoughts == [None, "", None, "Need the tool.", None, None, None]
    sent, _ = translated("messages", "chat", {"messages": turns[:3]})
    assert "reasoning_content" not in sent["messages"][1]


def test_thought_of_a_chat_upstream_is_not_sent_to_responses() -> None:
    turns = [USER, assistant([THOUGHT, text("x")]), USER]
    sent, dropped = translated("messages", "responses", {"messages": turns})
    assert [item["type"] for item in sent["input"]] == ["message"] * 3
    assert dropped == ["messages.thinking"]


def test_thought_before_a_call_comes_back_by_a_native_client() -> None:
    message = {"reasoning": "Need the tool.", "tool_calls": [call("c1")]}
    response = response_to("chat", {"choices": [{"message": message}]})
    content = whole("native", response)["candidates"][0]["content"]
    results = {"role": "user", "parts": [native_result("f", {"output": "4"}, id="c1")]}
    sent, dropped = translated("native", "chat", {"contents": [NATIVE_HI, content, results]})
    assert sent["messages"][1] == {
        "role": "assistant",
        "tool_calls": [call("c1")],
        "reasoning_content": "Need the tool.",
    }
    assert dropped == []


@cases(
    "parts",
    [thought("Hm.", "c2ln"), native_call("f", {}, id="c1")],
    [thought("Hm."), native_call("f", {}, "c2ln", id="c1")],
    [thought("Hm."), {"text": "x", "thoughtSignature": "c2ln"}, native_call("f", {}, id="c1")],
)
def test_summary_of_what_a_native_upstream_signed_stays_behind(parts: list[Any]) -> None:
    results = {"role": "user", "parts": [native_result("f", {"output": "4"}, id="c1")]}
    contents = [NATIVE_HI, {"role": "model", "parts": parts}, results]
    sent, dropped = translated("native", "chat", {"contents": contents})
    assert "reasoning_content" not in sent["messages"][1]
    assert "contents.parts.thought" in dropped


def test_thought_before_a_call_comes_back_by_a_responses_client() -> None:
    message = {"reasoning_content": "Need the tool.", "tool_calls": [call("c1")]}
    output = whole("responses", response_to("chat", {"choices": [{"message": message}]}))["output"]
    result = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    body = {"input": [USER, *output, result], "tools": [tool()["function"] | {"type": "function"}]}
    sent, dropped = translated("responses", "chat", body)
    assert sent["messages"][1]["reasoning_content"] == "Need the tool."
    assert dropped == []
