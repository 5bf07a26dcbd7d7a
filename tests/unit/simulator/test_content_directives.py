"""Directives that decide what the answer is, in every dialect, plain and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Client, Reply, ask, ask_bytes

CHATS = ["chat", "messages", "responses", "native"]
DELTAS = {
    "chat": b'"content":"',
    "messages": b'"text_delta"',
    "responses": b"event: response.output_text.delta",
    "native": b'"finishReason"',
}


def reply_to(protocol: str, sim: dict[str, Any], **options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, protocol, sim=sim, **options)

    return run(one())


def texts(protocol: str, reply: Reply) -> list[str]:
    """The content deltas of a streamed answer, in order."""
    found: list[str] = []
    for data in reply.data:
        match protocol:
            case "chat":
                if data != "[DONE]" and data["choices"]:
                    found.append(data["choices"][0]["delta"].get("content") or "")
            case "messages":
                found.append(data.get("delta", {}).get("text", ""))
            case "responses":
                found.append(data["delta"] if data["type"].endswith("text.delta") else "")
            case _:
                found.append(data["candidates"][0]["content"]["parts"][0].get("text", ""))
    return [text for text in found if text]


def plain_text(protocol: str, body: Any) -> str:
    text: str
    match protocol:
        case "chat":
            text = body["choices"][0]["message"]["content"]
        case "messages":
            text = body["content"][-1]["text"]
        case "responses":
            text = body["output"][-1]["content"][0]["text"]
        case _:
            text = body["candidates"][0]["content"]["parts"][-1]["text"]
    return text


@pytest.mark.parametrize("protocol", CHATS)
def test_text_is_the_answer_and_beats_the_token_maximum(protocol: str) -> None:
    told = "a text of some length, with “quotes” and a \\ in it"
    assert plain_text(protocol, reply_to(protocol, {"text": told}).json) == told
    reply = reply_to(protocol, {"text": told, "chars_per_event": 7}, stream=True)
    assert texts(protocol, reply) == [told[at : at + 7] for at in range(0, len(told), 7)]


@pytest.mark.parametrize("protocol", CHATS)
def test_events_is_the_number_of_deltas(protocol: str) -> None:
    assert len(texts(protocol, reply_to(protocol, {"events": 40}, stream=True))) == 40
    split = texts(protocol, reply_to(protocol, {"events": 3, "text": "abcdefgh"}, stream=True))
    assert split == ["ab", "cde", "fgh"]
    assert texts(protocol, reply_to(protocol, {"events": 0}, stream=True)) == []


@pytest.mark.parametrize("protocol", CHATS)
def test_chars_and_huge_are_lengths(protocol: str) -> None:
    assert len(plain_text(protocol, reply_to(protocol, {"chars": 1234}).json)) == 1234
    size = 1_000_000
    assert len(plain_text(protocol, reply_to(protocol, {"huge": size}).json)) == size
    (delta,) = texts(protocol, reply_to(protocol, {"huge": size}, stream=True))
    assert len(delta) == size


@pytest.mark.parametrize("protocol", CHATS)
def test_tool_calls_are_made_without_tools_in_the_request(protocol: str) -> None:
    stated = [{"name": "alpha", "arguments": {"n": 1}}, {"name": "beta"}]
    for stream in (False, True):
        two = reply_to(protocol, {"tool_calls": 2}, stream=stream)
        assert two.body.count(b"lookup") >= 2
        body = reply_to(protocol, {"tool_calls": stated}, stream=stream).body
        assert b"alpha" in body
        assert b"beta" in body


@pytest.mark.parametrize("protocol", CHATS)
@pytest.mark.parametrize("stream", [False, True])
def test_no_usage_says_nothing_about_it(protocol: str, stream: bool) -> None:
    body = reply_to(protocol, {"no_usage": True}, stream=stream).body
    for word in (b"_tokens", b"TokenCount", b'"usage":{'):
        assert word not in body.replace(b'"max_output_tokens"', b"")


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_split_the_way_of_each_dialect(stream: bool) -> None:
    told = {"input": 100, "output": 50, "cached": 20, "cache_write": 10, "reasoning": 30}
    sim: dict[str, Any] = {"usage": told, "text": "x"}

    def last(protocol: str, **members: Any) -> Any:
        reply = reply_to(protocol, sim, stream=stream, **members)
        return reply.data if stream else [reply.json]

    chunks = last("chat", stream_options={"include_usage": True})
    usage = (chunks[-2] if stream else chunks[0])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (100, 50)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 20
    assert usage["prompt_tokens_details"]["cache_write_tokens"] == 10
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 30
    events = last("messages")
    usage = (events[-2] if stream else events[0])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (70, 50)
    assert usage["cache_read_input_tokens"] == 20
    assert usage["cache_creation_input_tokens"] == 10
    events = last("responses")
    usage = (events[-1]["response"] if stream else events[0])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 50)
    usage = last("native")[-1]["usageMetadata"]
    assert usage["promptTokenCount"] == 100
    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"]) == (20, 30)
    assert usage["cachedContentTokenCount"] == 20


@pytest.mark.parametrize("protocol", CHATS)
def test_zero_usage_is_sent_as_zero(protocol: str) -> None:
    body = reply_to(protocol, {"usage": {"input": 0, "output": 0}}).body
    names = {"chat": b"prompt_tokens", "native": b"promptTokenCount"}
    assert b'"%b":0' % names.get(protocol, b"input_tokens") in body


@pytest.mark.parametrize(
    ("protocol", "word"),
    [
        ("chat", b'"finish_reason":"content_filter"'),
        ("messages", b'"stop_reason":"refusal"'),
        ("responses", b'"reason":"content_filter"'),
        ("native", b'"finishReason":"SAFETY"'),
    ],
)
def test_finish_reason_is_translated_or_taken_as_it_is(protocol: str, word: bytes) -> None:
    for stream in (False, True):
        assert word in reply_to(protocol, {"finish_reason": "content_filter"}, stream=stream).body
    assert b'"odd"' in reply_to("chat", {"finish_reason": "odd"}).body


@pytest.mark.parametrize("protocol", CHATS)
def test_reasoning_text_is_shown_before_the_answer(protocol: str) -> None:
    sim = {"reasoning_text": "let me think", "text": "done"}
    assert b"let me think" in reply_to(protocol, sim).body
    streamed = reply_to(protocol, sim, stream=True).body
    assert streamed.index(b"let me think") < streamed.index(b"done")


@pytest.mark.parametrize(
    ("protocol", "terminator"),
    [
        ("chat", b"[DONE]"),
        ("messages", b"message_stop"),
        ("responses", b"response.completed"),
        ("native", b"finishReason"),
    ],
)
def test_no_done_leaves_out_the_terminator_only(protocol: str, terminator: bytes) -> None:
    assert terminator in reply_to(protocol, {}, stream=True).body
    reply = reply_to(protocol, {"no_done": True}, stream=True)
    assert reply.is_whole
    assert terminator not in reply.body
    assert reply.data


@pytest.mark.parametrize("protocol", [*CHATS, "images"])
def test_status_answers_in_the_dialects_shape(protocol: str) -> None:
    sim = {"status": 429, "message": "slow down", "retry_after": 3, "headers": {"X-More": "a b"}}
    reply = reply_to(protocol, sim)
    assert reply.status == 429
    assert reply.json["error"]["message"] == "slow down"
    assert (reply.headers["retry-after"], reply.headers["x-more"]) == ("3", "a b")
    assert reply_to("messages", {"status": 529}).json["error"]["type"] == "overloaded_error"
    assert reply_to("native", {"status": 503}).json["error"]["status"] == "UNAVAILABLE"
    assert reply_to("chat", {"status": 599}).json["error"]["type"] == "server_error"


def test_body_replaces_the_answer() -> None:
    page = reply_to("chat", {"status": 502, "body": "<html>no</html>"})
    assert (page.status, page.headers["content-type"]) == (502, "text/html")
    assert page.body == b"<html>no</html>"
    assert reply_to("chat", {"body": {"detail": "odd"}}, stream=True).json == {"detail": "odd"}
    assert reply_to("chat", {"body": "plain"}).headers["content-type"] == "text/plain"
    assert reply_to("chat", {"status": 204}).body == b""
    assert reply_to("chat", {"status": 201}).json["object"] == "chat.completion"


@pytest.mark.parametrize("protocol", CHATS)
def test_the_same_request_and_seed_give_the_same_bytes(protocol: str) -> None:
    async def answers(seed: int) -> list[bytes]:
        async with Simulator(seed=seed) as simulator, Client(simulator) as client:
            found = []
            for _ in range(2):
                client.send(ask_bytes(protocol, stream=True))
                found.append((await client.reply()).raw)
            return found

    first, again = run(answers(7))
    assert first == again
    assert run(answers(7))[0] == first
    assert run(answers(8))[0] != first
