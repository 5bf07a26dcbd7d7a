"""Streams of chat-completions upstreams, as documented and as they are."""

from __future__ import annotations

from typing import Any

from channels.http.sse import SseEvent
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
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
from channels.usage import Usage
from tests.unit.translators.wire import events_from, events_in, folded, sse

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


def test_text_comes_in_order_and_ends() -> None:
    found = events_from(
        "chat",
        sse(chunk(role="assistant", content=""), chunk(content="a"), chunk("stop"), USAGE, DONE),
    )
    assert found == [
        BEGAN,
        TextDelta("a"),
        Finished("stop"),
        UsageStated(Usage(input_tokens=3, output_tokens=4)),
        Ended(),
    ]


def test_content_and_finish_and_usage_in_one_chunk_are_split() -> None:
    one = {**chunk("length", role="assistant", content="a"), "usage": USAGE["usage"]}
    assert events_from("chat", sse(one, DONE)) == [
        BEGAN,
        TextDelta("a"),
        Finished("length"),
        UsageStated(Usage(input_tokens=3, output_tokens=4)),
        Ended(),
    ]


def test_cut_stream_has_no_end() -> None:
    assert events_from("chat", sse(chunk(content="a"), chunk("stop"))) == [
        BEGAN,
        TextDelta("a"),
        Finished("stop"),
    ]


def test_nothing_follows_the_terminator() -> None:
    found = events_from("chat", sse(chunk("stop"), b" [DONE] ", chunk(content="late"), DONE))
    assert found == [BEGAN, Finished("stop"), Ended()]


def test_comments_and_junk_are_passed_over() -> None:
    junk = [
        SseEvent(b": ping\n\n", None),
        *sse(b"", b"junk", b"[]", b"null", b"{}", {"object": "news"}, {"choices": None}),
    ]
    assert events_from("chat", [*junk, *sse(chunk(content="a"), DONE)]) == [
        BEGAN,
        TextDelta("a"),
        Ended(),
    ]


def test_other_choices_are_not_ours() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}
    assert events_from("chat", sse(chunk(content="a"), other, DONE)) == [
        BEGAN,
        TextDelta("a"),
        Ended(),
    ]


def test_call_has_id_and_name_once_and_arguments_in_pieces() -> None:
    found = events_from(
        "chat",
        sse(
            calls(piece(0, "", id="c1", name="f")),
            calls(piece(0, '{"a"')),
            calls(piece(0, ":1}")),
            chunk("tool_calls"),
            DONE,
        ),
    )
    assert found == [
        BEGAN,
        CallBegan(0, "c1", "f"),
        CallDelta(0, '{"a"'),
        CallDelta(0, ":1}"),
        Finished("tool_calls"),
        Ended(),
    ]


def test_interleaved_calls_keep_their_own_arguments() -> None:
    found = events_from(
        "chat",
        sse(
            calls(piece(0, "", id="c1", name="f"), piece(1, "", id="c2", name="g")),
            calls(piece(1, "{"), piece(0, "[")),
            calls(piece(0, "]"), piece(1, "}")),
            chunk("tool_calls"),
            DONE,
        ),
    )
    assert folded(found).parts == (ToolCall("c1", "f", "[]"), ToolCall("c2", "g", "{}"))


def test_call_without_arguments_has_an_empty_object() -> None:
    found = events_from(
        "chat",
        sse(
            calls(piece(0, id="c1", name="f"), piece(1, "", id="c2", name="g")), chunk("stop"), DONE
        ),
    )
    assert found == [
        BEGAN,
        CallBegan(0, "c1", "f"),
        CallBegan(1, "c2", "g"),
        CallDelta(0, "{}"),
        CallDelta(1, "{}"),
        Finished("tool_calls"),  # though the upstream says stop
        Ended(),
    ]


def test_signature_of_a_call_is_read_from_beside_it() -> None:
    signed = piece(0, "{}", id="c", name="f", extra_content={"google": {"thought_signature": "s"}})
    assert CallBegan(0, "c", "f", signature="s", signer="native") in events_from(
        "chat", sse(calls(signed), DONE)
    )


def test_id_and_name_in_every_piece_are_said_once() -> None:
    same = {"id": "c1", "name": "f"}
    found = events_from(
        "chat", sse(calls(piece(0, "{", **same)), calls(piece(0, "}", **same)), DONE)
    )
    assert folded(found).parts == (ToolCall("c1", "f", "{}"),)


def test_calls_that_share_a_number_are_told_apart_by_id() -> None:
    found = events_from(
        "chat",
        sse(
            calls(piece(0, "{}", id="c1", name="f")), calls(piece(0, "{}", id="c2", name="g")), DONE
        ),
    )
    assert folded(found).parts == (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}"))


def test_calls_without_numbers_are_told_apart_by_id_and_name() -> None:
    found = events_from(
        "chat",
        sse(
            calls(piece(None, "{", id="c1", name="f")),
            calls(piece(None, "}")),
            calls(piece(None, "[]", id="c2", name="g")),
            calls(piece(None, " ", id="c1")),
            DONE,
        ),
    )
    assert folded(found).parts == (ToolCall("c1", "f", "{} "), ToolCall("c2", "g", "[]"))


def test_name_after_the_first_arguments_holds_them_back() -> None:
    found = events_from(
        "chat",
        sse(calls(piece(3, "{", id="c1")), calls(piece(3, "}", name="f")), DONE),
    )
    assert found == [
        BEGAN,
        CallBegan(0, "c1", "f"),
        CallDelta(0, "{"),
        CallDelta(0, "}"),
        Ended(),
    ]


def test_missing_id_is_made_and_stays_the_same() -> None:
    stream = sse(calls(piece(0, "{}", name="f"), piece(1, "{}", name="f")), DONE)
    first, second = folded(events_from("chat", stream)), folded(events_from("chat", stream))
    assert first == second
    ids = [part.id for part in first.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert all(call_id.startswith("call_") for call_id in ids)


def test_arguments_as_an_object_are_its_text() -> None:
    odd = calls({"index": 0, "id": "c1", "function": {"name": "f", "arguments": {"a": 1}}})
    assert folded(events_from("chat", sse(odd, DONE))).parts == (ToolCall("c1", "f", '{"a":1}'),)


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


def test_thinking_under_either_name_is_said_once() -> None:
    both = chunk(reasoning_content="hm", reasoning="hm")
    assert events_from("chat", sse(both, chunk(reasoning="so"), chunk(content="a"), DONE)) == [
        BEGAN,
        ThinkingDelta("hm"),
        ThinkingDelta("so"),
        TextDelta("a"),
        Ended(),
    ]


def test_signature_in_the_envelope_is_read_without_its_text_again() -> None:
    entry = {
        "type": "reasoning.text",
        "index": 0,
        "format": "anthropic-claude-v1",
        "text": "hm",
        "signature": "s",
    }
    found = events_from(
        "chat", sse(chunk(reasoning_content="hm"), chunk(reasoning_details=[entry]), DONE)
    )
    assert found[1:-1] == [
        ThinkingDelta("hm"),
        ThinkingDelta("", signature="s", signer="messages"),
    ]
    alone = events_from("chat", sse(chunk(reasoning_details=[entry]), DONE))
    assert alone[1:-1] == [ThinkingDelta("hm", signature="s", signer="messages")]


def test_refusal_and_images_are_read() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    found = events_from("chat", sse(chunk(refusal="No."), chunk(images=[image]), DONE))
    assert found[1:-1] == [
        RefusalDelta("No."),
        MediaDelta(Media("image", None, url="https://a.example/x.png")),
    ]


def test_error_ends_the_stream() -> None:
    error = {"error": {"message": "Too busy.", "type": "server_error", "code": 503}}
    assert events_from("chat", sse(chunk(content="a"), error, chunk(content="b"), DONE)) == [
        BEGAN,
        TextDelta("a"),
        StreamFailed("503", "Too busy."),
    ]
    quiet = {**chunk(content="a"), "error": None}
    assert events_from("chat", sse(quiet, DONE)) == [BEGAN, TextDelta("a"), Ended()]


def test_error_without_words_has_some() -> None:
    (failed,) = events_from("chat", sse({"error": {"code": None}}))
    assert failed == StreamFailed(None, "The upstream reported an error.")


def test_chunk_that_is_not_as_documented_is_read_as_far_as_it_goes() -> None:
    odd = {
        "id": 7,
        "model": None,
        "choices": [
            {"index": "0", "delta": {"content": [{"type": "text", "text": "a"}], "role": 1}},
            "junk",
        ],
        "usage": "none",
    }
    thought = chunk(
        content=[
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "b"},
        ]
    )
    assert events_from("chat", sse(odd, thought, DONE)) == [
        Began(None, None),
        TextDelta("a"),
        ThinkingDelta("hm"),
        TextDelta("b"),
        Ended(),
    ]


def test_half_a_character_is_passed_on() -> None:
    half = b'{"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}'
    found = events_from("chat", sse(half))
    assert found == [Began(None, None), TextDelta("\ud83d")]


def test_running_usage_replaces() -> None:
    def used(output: int) -> dict[str, Any]:
        usage = {"prompt_tokens": 3, "completion_tokens": output}
        return {**chunk(content="a"), "usage": usage}

    answer = folded(events_from("chat", sse(used(1), used(2), DONE)))
    assert answer.usage == Usage(input_tokens=3, output_tokens=2)


def test_bytes_cut_anywhere_mean_the_same() -> None:
    stream = (
        'data: {"choices":[{"index":0,"delta":{"content":"é😀"}}]}\r\n\r\n: hi\r\n\r\n'
        'data: {"choices":[{"index":0,\r\ndata: "delta":{},"finish_reason":"stop"}]}\r\n\r\n'
        "data: [DONE]\r\n\r\n"
    ).encode()
    expected = [Began(None, None), TextDelta("é😀"), Finished("stop"), Ended()]
    for at in range(len(stream)):
        assert events_in("chat", stream, sizes=[at]) == expected
    assert events_in("chat", stream, sizes=[1] * len(stream)) == expected


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
