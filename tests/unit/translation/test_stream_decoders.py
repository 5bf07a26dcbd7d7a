"""Streams of chat-completions and messages upstreams, as documented and as they are."""

import json
from typing import Any

from channels.dialects.token_counts import Usage
from channels.http.sse import SseEvent
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
from channels.translation.model import Media, ToolCall
from tests.support.rows import cases, each
from tests.unit.translation.pieces import image_url, use
from tests.unit.translation.translated import events_from, folded, response_in, sse

DONE = b"[DONE]"


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "up", "choices": [choice]}


def piece(index: int | None, arguments: str | None = None, **members: Any) -> dict[str, Any]:
    """A piece of a tool call; `name` belongs to its function."""
    function = {}
    if "name" in members:
        function["name"] = members.pop("name")
    if arguments is not None:
        function["arguments"] = arguments
    stated = {} if index is None else {"index": index}
    return {**stated, **members, "function": function}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk(tool_calls=list(pieces))


USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
BEGAN = Began("chatcmpl-1", "up")
STATED = UsageStated(Usage(input_tokens=3, output_tokens=4))
ENVELOPE = {
    "type": "reasoning.text",
    "index": 0,
    "format": "anthropic-claude-v1",
    "text": "hm",
    "signature": "s",
}
PROOF = {"signature": "s", "signer": "messages"}
IMAGE = image_url("https://a.example/x.png")
GOOGLE = {"google": {"thought_signature": "s"}}
SAME = {"id": "c1", "name": "f"}


def made(number: int, call_id: str, name: str, *pieces: str) -> list[Event]:
    return [CallBegan(number, call_id, name), *(CallDelta(number, piece) for piece in pieces)]


# name: the data of an upstream's events, and the events they are. All but a cut have their end.
STREAMS: dict[str, tuple[list[Any], list[Event]]] = {
    "content, finish and usage in one chunk": (
        [{**chunk("length", role="assistant", content="a"), "usage": USAGE["usage"]}, DONE],
        [BEGAN, TextDelta("a"), Finished("length"), STATED, Ended()],
    ),
    "nothing follows the terminator": (
        [chunk("stop"), b" [DONE] ", chunk(content="late"), DONE],
        [BEGAN, Finished("stop"), Ended()],
    ),
    "interleaved calls": (
        [
            calls(piece(0, "", id="c1", name="f"), piece(1, "", id="c2", name="g")),
            calls(piece(1, "{"), piece(0, "[")),
            calls(piece(0, "]"), piece(1, "}")),
            DONE,
        ],
        [
            *(BEGAN, CallBegan(0, "c1", "f"), CallBegan(1, "c2", "g")),
            *(CallDelta(1, "{"), CallDelta(0, "["), CallDelta(0, "]"), CallDelta(1, "}")),
            Ended(),
        ],
    ),
    "calls without arguments, though the upstream says stop": (
        [
            calls(piece(0, id="c1", name="f"), piece(1, "", id="c2", name="g")),
            *(chunk("stop"), DONE),
        ],
        [
            *(BEGAN, CallBegan(0, "c1", "f"), CallBegan(1, "c2", "g")),
            *(CallDelta(0, "{}"), CallDelta(1, "{}"), Finished("tool_calls"), Ended()),
        ],
    ),
    "a call without arguments and without a finish": (
        [calls(piece(0, "", id="c1", name="f")), DONE],
        [BEGAN, *made(0, "c1", "f", "{}"), Ended()],
    ),
    "the signature of a call beside it": (
        [calls(piece(0, "{}", id="c", name="f", extra_content=GOOGLE)), DONE],
        [
            *(BEGAN, CallBegan(0, "c", "f", signature="s", signer="native")),
            *(CallDelta(0, "{}"), Ended()),
        ],
    ),
    "id and name in every piece": (
        [calls(piece(0, "{", **SAME)), calls(piece(0, "}", **SAME)), DONE],
        [BEGAN, *made(0, "c1", "f", "{", "}"), Ended()],
    ),
    "calls that share a number": (
        [calls(piece(0, "{}", id="c1", name="f")), calls(piece(0, "{}", id="c2", name="g")), DONE],
        [BEGAN, *made(0, "c1", "f", "{}"), *made(1, "c2", "g", "{}"), Ended()],
    ),
    "calls without numbers": (
        [
            *(calls(piece(None, "{", id="c1", name="f")), calls(piece(None, "}"))),
            calls(piece(None, "[]", id="c2", name="g")),
            *(calls(piece(None, " ", id="c1")), DONE),
        ],
        [
            *(BEGAN, *made(0, "c1", "f", "{", "}"), *made(1, "c2", "g", "[]")),
            *(CallDelta(0, " "), Ended()),
        ],
    ),
    "a name after the first arguments": (
        [calls(piece(3, "{", id="c1")), calls(piece(3, "}", name="f")), DONE],
        [BEGAN, *made(0, "c1", "f", "{", "}"), Ended()],
    ),
    "arguments as an object": (
        [calls({"index": 0, "id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}), DONE],
        [BEGAN, *made(0, "c1", "f", '{"a":1}'), Ended()],
    ),
    "thinking under either name": (
        [
            chunk(reasoning_content="hm", reasoning="hm"),
            *(chunk(reasoning="so"), chunk(content="a"), DONE),
        ],
        [BEGAN, ThinkingDelta("hm"), ThinkingDelta("so"), TextDelta("a"), Ended()],
    ),
    "a signature in the envelope, its text not again": (
        [chunk(reasoning_content="hm"), chunk(reasoning_details=[ENVELOPE]), DONE],
        [BEGAN, ThinkingDelta("hm"), ThinkingDelta("", **PROOF), Ended()],
    ),
    "envelopes of nothing": (
        [chunk(reasoning_details=["junk", {}, {"type": "reasoning.text", "text": ""}]), DONE],
        [BEGAN, Ended()],
    ),
    "an envelope without a proof, its text not again": (
        [chunk(reasoning="hm"), chunk(reasoning_details=[{**ENVELOPE, "signature": None}]), DONE],
        [BEGAN, ThinkingDelta("hm"), Ended()],
    ),
    "an envelope alone": (
        [chunk(reasoning_details=[ENVELOPE]), DONE],
        [BEGAN, ThinkingDelta("hm", **PROOF), Ended()],
    ),
    "a refusal and an image": (
        [chunk(refusal="No."), chunk(images=[IMAGE]), DONE],
        [
            *(BEGAN, RefusalDelta("No.")),
            *(MediaDelta(Media("image", None, url="https://a.example/x.png")), Ended()),
        ],
    ),
    "an error that is null": (
        [{**chunk(content="a"), "error": None}, DONE],
        [BEGAN, TextDelta("a"), Ended()],
    ),
    "an error without words": (
        [{"error": {"code": None}}],
        [StreamFailed(None, "The upstream reported an error.")],
    ),
    "half a character": (
        [b'{"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}'],
        [Began(None, None), TextDelta("\ud83d")],
    ),
}


@each("name", STREAMS)
def test_stream_is_read(name: str) -> None:
    datas, expected = STREAMS[name]
    assert events_from("chat", [SseEvent(b": a comment\n\n", None), *sse(*datas)]) == expected


def test_missing_id_is_made_and_stays_the_same() -> None:
    stream = sse(calls(piece(0, "{}", name="f"), piece(1, "{}", name="f")), DONE)
    first, second = folded(events_from("chat", stream)), folded(events_from("chat", stream))
    assert first == second
    ids = [part.id for part in first.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert all(call_id.startswith("call_") for call_id in ids)


def test_usage_in_a_choice_or_as_groq_states_it_counts_until_the_protocols_own_comes() -> None:
    stated = {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13}
    in_choice = chunk("stop")
    in_choice["choices"][0]["usage"] = stated
    as_groq = {**chunk("stop"), "x_groq": {"id": "req_1", "usage": stated}}
    for last in (in_choice, as_groq, {**in_choice, "id": 7}, {**as_groq, "id": 7}):
        output = [
            event for event in events_from("chat", sse(last)) if isinstance(event, UsageStated)
        ]
        assert output == [UsageStated(Usage(8, 5))]
        found = events_from("chat", sse(USAGE, last, DONE))
        assert [event.usage for event in found if isinstance(event, UsageStated)] == [Usage(3, 4)]


STOP = {"type": "message_stop"}


def start(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "model": "up", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def begin(index: int, kind: str, **members: Any) -> dict[str, Any]:
    block = {"type": kind, **members}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **members},
    }


def words(index: int, text: str) -> dict[str, Any]:
    return delta(index, "text", text=text)


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def last(
    reason: str = "end_turn", usage: dict[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    event = {"type": "message_delta", "delta": {"stop_reason": reason, **delta}}
    return event if usage is None else {**event, "usage": usage}


UNKNOWN = "The upstream reported an error."
ODD_JSON = {"type": "input_json_delta", "partial_json": '{"a":1}', "stop_reason": 7}


def of_block(index: object, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


# name: the data of an upstream's events, and the events they are.
MESSAGES: dict[str, tuple[list[Any], list[Event]]] = {
    "a call first, and no start": (
        [begin(0, "tool_use", id="t", name="f"), STOP],
        [CallBegan(0, "t", "f"), CallDelta(0, "{}"), Ended()],
    ),
    "a stop sequence is named": (
        [last("stop_sequence", stop_sequence="END")],
        [Finished("stop_sequence", "END"), Ended()],
    ),
    "an empty error": ([{"type": "error", "error": {}}, STOP], [StreamFailed(None, UNKNOWN)]),
    "an error that is null": (
        [{"type": "error", "error": None}, STOP],
        [StreamFailed(None, UNKNOWN)],
    ),
    "one that is not belongs to its block still": (
        [begin(1, "tool_use", id="t", name="f"), of_block(1, ODD_JSON), stop(1)],
        [CallBegan(0, "t", "f"), CallDelta(0, '{"a":1}')],
    ),
}


@each("name", MESSAGES)
def test_stream_of_messages_is_read(name: str) -> None:
    datas, expected = MESSAGES[name]
    assert events_from("messages", [SseEvent(b": hi\n\n", None), *sse(*datas)]) == expected


@cases(
    "given, arguments",
    ({"a": 1}, '{"a":1}'),
    ('{"a": ', '{"a": '),
    ({}, "{}"),
    ("", "{}"),
    (None, "{}"),
)
def test_arguments_given_at_the_start_are_the_arguments(given: object, arguments: str) -> None:
    call = use("t", given, name="f")
    opening = {"type": "content_block_start", "index": 0, "content_block": call}
    found = events_from("messages", sse(start(), opening, last("tool_use"), STOP))
    whole = json.dumps({"type": "message", "content": [call], "stop_reason": "tool_use"})
    assert folded(found).parts == (ToolCall("t", "f", arguments),)
    assert response_in("messages", whole.encode()).parts == folded(found).parts
