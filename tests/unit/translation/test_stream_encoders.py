"""Streams that chat and messages clients get: order, numbering, what is held back."""

from typing import Any

from channels.dialects.chat.response_encoder import ChatStreamEncoder
from channels.dialects.messages.response_encoder import MessagesStreamEncoder as MessagesEncoder
from channels.dialects.token_counts import Usage
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.model import Media
from tests.support.rows import cases, each
from tests.unit.translation.translated import data_of, written

USAGE = UsageStated(Usage(3, 4))


def encoder(*, include_usage: bool = False) -> ChatStreamEncoder:
    return ChatStreamEncoder(id="answer-1", created=7, model="m", include_usage=include_usage)


def test_usage_is_for_a_client_that_requested_it() -> None:
    chunks = data_of(written("chat", [TextDelta("a"), USAGE, Ended()], include_usage=False))
    assert not any("usage" in chunk for chunk in chunks[:-1])
    assert chunks[-1] == "[DONE]"
    unstated = data_of(written("chat", [TextDelta("a"), Ended()], include_usage=True))
    assert all(chunk["choices"] for chunk in unstated[:-1])


def test_nothing_is_written_before_there_is_something_to_say() -> None:
    one = encoder()
    assert one.encode_event(Began("x", "up")) == b""
    assert one.encode_event(USAGE) == b""
    assert one.encode_event(Finished("stop")) == b""
    assert one.encode_event(TextDelta("a")) != b""


def test_nothing_follows_the_end() -> None:
    one = encoder()
    one.encode_event(Ended())
    assert one.encode_event(TextDelta("late")) == b""
    assert one.encode_event(Ended()) == b""


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


@each("name", DELTAS)
def test_events_are_written_as_deltas(name: str) -> None:
    events, deltas = DELTAS[name]
    chunks = data_of(written("chat", events, include_usage=False))
    found = [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]"]
    assert [delta for delta in found if "role" not in delta] == deltas


def test_stop_after_calls_is_tool_calls() -> None:
    chunks = data_of(written("chat", [CallBegan(0, "c", "f"), Finished("stop"), Ended()]))
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


@cases(
    "code, expected",
    ("overloaded_error", ("api_error", "upstream_error")),
    ("rate_limit_error", ("rate_limit_error", "rate_limit_exceeded")),
    ("429", ("rate_limit_error", "rate_limit_exceeded")),
    ("invalid_request_error", ("invalid_request_error", "invalid_request")),
    # The operator's account, not the client's.
    ("billing_error", ("api_error", "upstream_error")),
    ("insufficient_quota", ("api_error", "upstream_error")),
    (None, ("api_error", "upstream_error")),
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


def blocks(*events: Event) -> list[Any]:
    """Each block: its start, its deltas, its stop. Asserts that they follow one another."""
    found: list[Any] = []
    is_open = False
    for data in data_of(written("messages", events)):
        if data["type"] == "content_block_start":
            assert not is_open, "one block at a time"
            assert data["index"] == len(found), "numbered in order"
            is_open = True
            found.append([data["content_block"]])
        elif data["type"] == "content_block_delta":
            assert is_open, "deltas within a block"
            assert data["index"] == len(found) - 1, "deltas of the open block"
            found[-1].append(data["delta"])
        elif data["type"] == "content_block_stop":
            assert is_open, "one stop for a start"
            assert data["index"] == len(found) - 1, "the stop of the open block"
            is_open = False
    return found


def text(*pieces: str) -> list[Any]:
    start = {"type": "text", "text": ""}
    return [start, *({"type": "text_delta", "text": piece} for piece in pieces)]


def call(call_id: str, name: str, *pieces: str) -> list[Any]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return [start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces)]


def last(*events: Event) -> Any:
    """The message_delta."""
    return data_of(written("messages", events))[-2]


def test_no_block_is_written_before_there_is_something_to_say() -> None:
    one = MessagesEncoder(id="a", created=1, model="m", include_usage=False)
    assert one.encode_event(Began("x", "up")) == b""
    assert one.encode_event(ThinkingDelta("")) == b""
    assert one.encode_event(Finished("stop")) == b""
    assert one.encode_event(TextDelta("")) == b""
    assert one.encode_event(TextDelta("a")) != b""


IMAGE = Media("image", None, url="https://a.example/x.png")

# name: events but for the last, and the blocks of their stream.
BLOCKS: dict[str, tuple[list[Event], list[Any]]] = {
    "a call first": ([CallBegan(0, "c1", "f"), CallDelta(0, "{}")], [call("c1", "f", "{}")]),
    "the delta that caused the change is not lost": (
        [RefusalDelta("No"), RefusalDelta("."), TextDelta("Sorry")],
        [text("No", "."), text("Sorry")],
    ),
    "interleaved calls come one after the other": (
        [
            *(CallBegan(0, "c1", "f"), CallDelta(0, '{"a"')),
            *(CallBegan(1, "c2", "g"), CallDelta(1, '{"b"'), CallBegan(2, "c3", "h")),
            *(CallDelta(0, ":1}"), CallDelta(2, "{}"), CallDelta(1, ":2}"), Finished("tool_calls")),
        ],
        [*(call("c1", "f", '{"a"', ":1}"), call("c2", "g", '{"b"', ":2}")), call("c3", "h", "{}")],
    ),
    "text amid a call waits for its end": (
        [
            *(CallBegan(0, "c1", "f"), CallDelta(0, "{"), TextDelta("a"), TextDelta("b")),
            *(CallDelta(0, "}"), TextDelta("c")),
        ],
        [call("c1", "f", "{", "}"), text("a", "b", "c")],
    ),
    "calls without arguments": (
        [CallBegan(0, "c1", "f"), CallBegan(1, "c2", "g")],
        [call("c1", "f", "{}"), call("c2", "g", "{}")],
    ),
    "arguments that never become JSON still end": (
        [CallBegan(0, "c1", "f"), CallDelta(0, "{oops"), CallBegan(1, "c2", "g")],
        [call("c1", "f", "{oops"), call("c2", "g", "{}")],
    ),
    "a second start of a call is none": (
        [CallBegan(0, "c1", "f"), CallBegan(0, "c1", "f"), CallDelta(0, "{}")],
        [call("c1", "f", "{}")],
    ),
    "an image is a link": (
        [TextDelta("See "), MediaDelta(IMAGE)],
        [text("See ", "![image](https://a.example/x.png)")],
    ),
}


@each("name", BLOCKS)
def test_events_are_written_as_blocks(name: str) -> None:
    events, expected = BLOCKS[name]
    assert blocks(*events, Ended()) == expected


@cases(
    "events, expected",
    ([Finished("length")], {"stop_reason": "max_tokens", "stop_sequence": None}),
    ([Finished("stop_sequence", "END")], {"stop_reason": "stop_sequence", "stop_sequence": "END"}),
    (
        [CallBegan(0, "c", "f"), Finished("stop")],
        {"stop_reason": "tool_use", "stop_sequence": None},
    ),
    ([RefusalDelta("No."), Finished("stop")], {"stop_reason": "refusal", "stop_sequence": None}),
    (
        [Finished("refusal", explanation="Not this.")],
        {
            "stop_reason": "refusal",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": "Not this."},
        },
    ),
    ([], {"stop_reason": "end_turn", "stop_sequence": None}),
)
def test_finish_is_written_in_the_protocols_words(
    events: list[Event], expected: dict[str, Any]
) -> None:
    assert last(*events, Ended())["delta"] == expected
