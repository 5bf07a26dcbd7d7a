"""Streams that chat clients get: order, numbering, what is said once, what is held back."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.chat.codec import StreamEncoder
from channels.dialects.meter import Usage
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from tests.unit.translators.wire import data_of, written

USAGE = UsageStated(Usage(3, 4))


def encoder(*, include_usage: bool = False) -> StreamEncoder:
    return StreamEncoder(id="answer-1", created=7, model="m", include_usage=include_usage)


def test_stream_is_role_text_finish_usage_terminator() -> None:
    events: list[Event] = [
        Began("x", "up"),
        TextDelta("Hi"),
        Finished("stop"),
        USAGE,
        Ended(),
    ]
    chunks = data_of(written("chat", events))
    head = {"id": "answer-1", "object": "chat.completion.chunk", "created": 1_700_000_000}
    assert all(head.items() <= chunk.items() for chunk in chunks[:-1])
    assert [chunk["choices"] for chunk in chunks[:-1]] == [
        [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": "", "refusal": None},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
        [{"index": 0, "delta": {"content": "Hi"}, "logprobs": None, "finish_reason": None}],
        [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}],
        [],
    ]
    assert [chunk["usage"] for chunk in chunks[:3]] == [None, None, None]
    assert chunks[3]["usage"]["total_tokens"] == 7
    assert chunks[4] == "[DONE]"


def test_usage_is_for_a_client_that_asked() -> None:
    chunks = data_of(written("chat", [TextDelta("a"), USAGE, Ended()], include_usage=False))
    assert not any("usage" in chunk for chunk in chunks[:-1])
    assert chunks[-1] == "[DONE]"
    unstated = data_of(written("chat", [TextDelta("a"), Ended()], include_usage=True))
    assert all(chunk["choices"] for chunk in unstated[:-1])


def test_nothing_is_written_before_there_is_something_to_say() -> None:
    one = encoder()
    assert one.encode(Began("x", "up")) == b""
    assert one.encode(USAGE) == b""
    assert one.encode(Finished("stop")) == b""
    assert one.encode(TextDelta("a")) != b""


def test_cut_stream_has_no_finish_and_no_terminator() -> None:
    stream = written("chat", [TextDelta("a"), Finished("stop"), USAGE])
    assert b"[DONE]" not in stream
    assert [chunk["choices"][0]["finish_reason"] for chunk in data_of(stream)] == [None, None]


def test_nothing_follows_the_end() -> None:
    one = encoder()
    one.encode(Ended())
    assert one.encode(TextDelta("late")) == b""
    assert one.encode(Ended()) == b""


def test_empty_answer_is_a_whole_stream() -> None:
    chunks = data_of(written("chat", [Began(None, None), Finished("length"), Ended()]))
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[0]["choices"][0]["finish_reason"] == "length"
    assert chunks[1:] == ["[DONE]"]


FORM = "anthropic-claude-v1"


def called(index: int, call_id: str, name: str, **members: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    made = {"index": index, "id": call_id, "type": "function", "function": function}
    return {"tool_calls": [{**made, **members}]}


def more(index: int, arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def proven(index: int, text: str, signature: str) -> list[dict[str, Any]]:
    entry = {"type": "reasoning.text", "index": index, "format": FORM}
    return [{**entry, "text": text, "signature": signature}]


BLOB = {"type": "reasoning.encrypted", "index": 1, "format": FORM, "data": "blob"}

# name: events, and the deltas of their chunks without the role's.
DELTAS: dict[str, tuple[list[Event], list[Any]]] = {
    "calls, numbered by themselves, with id and name once": (
        [
            *(TextDelta("a"), CallBegan(0, "c1", "f"), CallDelta(0, '{"x')),
            *(CallBegan(1, "c2", "g"), CallDelta(1, "{}"), CallDelta(0, '":1}'), Ended()),
        ],
        [
            *({"content": "a"}, called(0, "c1", "f"), more(0, '{"x')),
            *(called(1, "c2", "g"), more(1, "{}"), more(0, '":1}'), {}),
        ],
    ),
    "a call without arguments": (
        [CallBegan(0, "c1", "f"), CallDelta(0, ""), Finished("tool_calls"), Ended()],
        [called(0, "c1", "f"), more(0, "{}"), {}],
    ),
    "a delta of a call that never began": (
        [TextDelta("a"), CallDelta(3, "{}")],
        [{"content": "a"}],
    ),
    "such a delta alone": ([CallDelta(0, "{}")], []),
    "the signature of a call, beside it": (
        [CallBegan(0, "c", "f", signature="s", signer="native")],
        [called(0, "c", "f", extra_content={"google": {"thought_signature": "s"}})],
    ),
    "thinking beside the text, proven at its end": (
        [
            *(ThinkingDelta("a"), ThinkingDelta("b")),
            ThinkingDelta(signature="s", signer="messages"),
            ThinkingDelta(redacted="blob", signer="messages"),
            TextDelta("x"),
            ThinkingDelta("c", signature="t", signer="messages"),
        ],
        [
            *({"reasoning_content": "a"}, {"reasoning_content": "b"}),
            *({"reasoning_details": proven(0, "ab", "s")}, {"reasoning_details": [BLOB]}),
            *(
                {"content": "x"},
                {"reasoning_content": "c", "reasoning_details": proven(2, "c", "t")},
            ),
        ],
    ),
    "thinking that says nothing": ([ThinkingDelta(), ThinkingDelta(signature="whose")], []),
    "a refusal, not explained twice, and an image": (
        [
            *(RefusalDelta("No."), MediaDelta(Media("image", "image/png", data="iVBOR"))),
            *(Finished("refusal", explanation="not said twice"), Ended()),
        ],
        [{"refusal": "No."}, {"content": "![image](data:image/png;base64,iVBOR)"}, {}],
    ),
    "a refusal that is explained": (
        [Finished("refusal", explanation="Not this."), Ended()],
        [{"refusal": "Not this."}, {}],
    ),
}


@pytest.mark.parametrize("name", DELTAS)
def test_events_are_written_as_deltas(name: str) -> None:
    events, deltas = DELTAS[name]
    chunks = data_of(written("chat", events, include_usage=False))
    found = [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]"]
    assert [delta for delta in found if "role" not in delta] == deltas


def test_stop_after_calls_is_tool_calls() -> None:
    chunks = data_of(written("chat", [CallBegan(0, "c", "f"), Finished("stop"), Ended()]))
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("overloaded_error", ("api_error", "upstream_error")),
        ("rate_limit_error", ("rate_limit_error", "rate_limit_exceeded")),
        ("429", ("rate_limit_error", "rate_limit_exceeded")),
        ("invalid_request_error", ("invalid_request_error", "invalid_request")),
        # The operator's account, not the client's.
        ("billing_error", ("api_error", "upstream_error")),
        ("insufficient_quota", ("api_error", "upstream_error")),
        (None, ("api_error", "upstream_error")),
    ],
)
def test_error_is_chats_own_and_ends_without_terminator(
    code: str | None, expected: tuple[str, str]
) -> None:
    stream = written("chat", [TextDelta("a"), StreamFailed(code, "Busy."), Ended()])
    kind, word = expected
    assert data_of(stream)[-1] == {"error": {"message": "Busy.", "type": kind, "code": word}}
    assert b"[DONE]" not in stream


def test_half_a_character_is_written_as_it_came() -> None:
    assert b'"content":"\\ud83d"' in written("chat", [TextDelta("\ud83d")])
