"""Streams of chat-completions upstreams, as documented and as they are."""

from __future__ import annotations

from typing import Any

from channels.dialects.meter import Usage
from channels.http.sse import SseEvent
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
    ToolCall,
    UsageStated,
)
from tests.support.rows import each
from tests.unit.translators.wire import events_from, folded, sse

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
TOO_BUSY = {"error": {"message": "Too busy.", "type": "server_error", "code": 503}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
GOOGLE = {"google": {"thought_signature": "s"}}
SAME = {"id": "c1", "name": "f"}
TOTAL = {"prompt_tokens": 3, "completion_tokens": 1}
ODD = {
    "id": 7,
    "model": None,
    "choices": [
        {"index": "0", "delta": {"content": [{"type": "text", "text": "a"}], "role": 1}},
        "junk",
    ],
    "usage": "none",
}
THINKING = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "b"},
]


def made(number: int, call_id: str, name: str, *pieces: str) -> list[Event]:
    return [CallBegan(number, call_id, name), *(CallDelta(number, piece) for piece in pieces)]


# name: the data of an upstream's events, and the events they are. All but a cut have their end.
STREAMS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": (
        [chunk(role="assistant", content=""), chunk(content="a"), chunk("stop"), USAGE, DONE],
        [BEGAN, TextDelta("a"), Finished("stop"), STATED, Ended()],
    ),
    "content, finish and usage in one chunk": (
        [{**chunk("length", role="assistant", content="a"), "usage": USAGE["usage"]}, DONE],
        [BEGAN, TextDelta("a"), Finished("length"), STATED, Ended()],
    ),
    "a cut": (
        [chunk(content="a"), chunk("stop")],
        [BEGAN, TextDelta("a"), Finished("stop")],
    ),
    "nothing follows the terminator": (
        [chunk("stop"), b" [DONE] ", chunk(content="late"), DONE],
        [BEGAN, Finished("stop"), Ended()],
    ),
    "junk": (
        [
            *(b"", b"junk", b"[]", b"null", b"{}", {"object": "news"}, {"choices": None}),
            *(chunk(content="a"), DONE),
        ],
        [BEGAN, TextDelta("a"), Ended()],
    ),
    "another choice": (
        [
            chunk(content="a"),
            {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]},
            DONE,
        ],
        [BEGAN, TextDelta("a"), Ended()],
    ),
    "a call in pieces": (
        [
            calls(piece(0, "", id="c1", name="f")),
            *(calls(piece(0, '{"a"')), calls(piece(0, ":1}"))),
            *(chunk("tool_calls"), DONE),
        ],
        [BEGAN, *made(0, "c1", "f", '{"a"', ":1}"), Finished("tool_calls"), Ended()],
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
    "an error ends the stream": (
        [chunk(content="a"), TOO_BUSY, chunk(content="b"), DONE],
        [BEGAN, TextDelta("a"), StreamFailed("503", "Too busy.")],
    ),
    "an error that is null": (
        [{**chunk(content="a"), "error": None}, DONE],
        [BEGAN, TextDelta("a"), Ended()],
    ),
    "an error without words": (
        [{"error": {"code": None}}],
        [StreamFailed(None, "The upstream reported an error.")],
    ),
    "chunks that are not as documented": (
        [ODD, chunk(content=THINKING), DONE],
        [Began(None, None), TextDelta("a"), ThinkingDelta("hm"), TextDelta("b"), Ended()],
    ),
    "half a character": (
        [b'{"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}'],
        [Began(None, None), TextDelta("\ud83d")],
    ),
    "running usage replaces": (
        [
            {**chunk(content="a"), "usage": TOTAL},
            {**chunk(content="a"), "usage": {**TOTAL, "completion_tokens": 2}},
            DONE,
        ],
        [
            *(BEGAN, TextDelta("a"), UsageStated(Usage(3, 1))),
            *(TextDelta("a"), UsageStated(Usage(3, 2)), Ended()),
        ],
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


def test_old_function_call_is_a_call() -> None:
    found = events_from(
        "chat",
        sse(
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": "{}"}),
            chunk("function_call"),
            DONE,
        ),
    )
    answer = folded(found)
    assert answer.finish == "tool_calls"
    (call,) = answer.parts
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("f", "{}")


def test_usage_in_a_choice_or_as_groq_states_it_counts_until_the_protocols_own_comes() -> None:
    stated = {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13}
    in_choice = chunk("stop")
    in_choice["choices"][0]["usage"] = stated
    as_groq = {**chunk("stop"), "x_groq": {"id": "req_1", "usage": stated}}
    for last in (in_choice, as_groq, {**in_choice, "id": 7}, {**as_groq, "id": 7}):
        said = [event for event in events_from("chat", sse(last)) if isinstance(event, UsageStated)]
        assert said == [UsageStated(Usage(8, 5))]
        found = events_from("chat", sse(USAGE, last, DONE))
        assert [event.usage for event in found if isinstance(event, UsageStated)] == [Usage(3, 4)]
