"""Events that differ in their text alone are read all at once, and nothing tells it from outside.

The measure is the same stream byte by byte, where each event is read by itself.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.dialects.alike import MISSES_MAX, AlikeEvents
from tests.unit.calls.relaying import NATIVE, TRANSLATED, Way, relayed

WAYS = [way for way in (*NATIVE, *TRANSLATED) if way.upstream in ("chat", "messages")]
HEAD, TAIL = b'data: {"content":"', b'"}\n\n'

TEXTS = st.one_of(
    st.sampled_from(["word ", "ü 🌊", 'a "quoted" one', "back\\slash", "line\n", "\x7f\u00a0", ""]),
    st.text(max_size=8),
)
# What an event may say beside text, or in its place.
OTHERS = st.sampled_from(["thought", "call", "stop", "usage", "error", "ping", "mess", "comment"])
PARTS = st.lists(st.one_of(st.lists(TEXTS, min_size=1, max_size=9), OTHERS), min_size=1, max_size=6)


def data(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"


def chat_event(delta: dict[str, Any], **members: Any) -> bytes:
    choice = {
        "index": 0,
        "delta": delta,
        "finish_reason": members.pop("finish_reason", None),
    }
    return data({"id": "c1", "model": "m", "choices": [choice], **members})


def chat_other(kind: str) -> bytes:
    call = {
        "index": 0,
        "id": "a",
        "function": {"name": "f", "arguments": '{"content":"x"}'},
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 9}
    return {
        "thought": chat_event({"reasoning_content": "hm"}),
        "call": chat_event({"tool_calls": [call]}),
        "stop": chat_event({}, finish_reason="stop"),
        "usage": chat_event({"content": "counted"}, usage=usage),
        "error": data({"error": {"message": "no", "code": "x"}}),
        "ping": b"data: {}\n\n",
        "mess": b'data: {"choices":[{"delta":{"content":"torn\n\n',
        "comment": b": still here\n\n",
    }[kind]


def messages_event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\n".encode() + data({"type": kind, **members})


def messages_delta(kind: str, name: str, text: str, index: int = 0) -> bytes:
    delta = {"type": f"{kind}_delta", name: text}
    return messages_event("content_block_delta", index=index, delta=delta)


def messages_other(kind: str) -> bytes:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    begun = messages_event("content_block_start", index=1, content_block=call)
    stop = {"stop_reason": "end_turn"}
    return {
        "thought": messages_delta("thinking", "thinking", "hm"),
        "call": begun + messages_delta("input_json", "partial_json", '{"text":"x"}', 1),
        "stop": messages_event("message_delta", delta=stop, usage={"output_tokens": 9}),
        "usage": messages_event("message_delta", delta={}, usage={"output_tokens": 4}),
        "error": messages_event("error", error={"type": "overloaded_error", "message": "no"}),
        "ping": messages_event("ping"),
        "mess": b'data: {"delta":{"text":"torn\n\n',
        "comment": b": still here\n\n",
    }[kind]


def events_of(upstream: str, parts: list[list[str] | str]) -> list[bytes]:
    is_chat = upstream == "chat"
    events = []
    for part in parts:
        if isinstance(part, str):
            events.append(chat_other(part) if is_chat else messages_other(part))
        elif is_chat:
            events += [chat_event({"content": text}) for text in part]
        else:
            events += [messages_delta("text", "text", text) for text in part]
    if is_chat:
        return [chat_event({"role": "assistant"}), *events, b"data: [DONE]\n\n"]
    start = {"id": "m1", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}
    first = messages_event("message_start", message=start)
    return [first, *events, messages_event("message_stop")]


@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=25)
@given(
    parts=PARTS,
    cuts=st.lists(st.integers(1, 400), max_size=6),
    asks_for_usage=st.booleans(),
)
@example(parts=[["one"] * 9, "usage", ["two"] * 9, "stop"], cuts=[], asks_for_usage=False)
@example(parts=[["one"] * 9, "error", ["two"] * 9, "stop"], cuts=[], asks_for_usage=False)
@example(
    parts=[["one"] * 4, "thought", ["two"] * 9, "call", ["x"] * 9],
    cuts=[],
    asks_for_usage=True,
)
@example(parts=[["one"] * 4 + ["a\n"] + ["two"] * 9], cuts=[500], asks_for_usage=True)
def test_run_of_alike_events_is_relayed_as_each_by_itself(
    way: Way, parts: list[list[str] | str], cuts: list[int], asks_for_usage: bool
) -> None:
    events = events_of(way.upstream, parts)
    stream = b"".join(events)
    apart = [stream[at : at + 1] for at in range(len(stream))]
    expected = relayed(way, apart, asks_for_usage=asks_for_usage)
    places = [0, *accumulate(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(sorted(places))]
    for cut in (events, [stream], [piece for piece in pieces if piece]):
        assert relayed(way, cut, asks_for_usage=asks_for_usage) == expected


def learned() -> AlikeEvents:
    alike = AlikeEvents(b'"content":"')
    event = HEAD + b"one" + TAIL
    alike.learn(event, b"", lambda event, text: True)
    alike.learn(event, b"", lambda event, text: event == HEAD + text.encode() + TAIL)
    return alike


def test_run_ends_where_an_event_is_another_or_its_text_more_than_it_looks() -> None:
    said = [HEAD + text.encode() + TAIL for text in ("one", "", "zwei ü")]
    for rest in (
        b"",
        b"data: [DONE]\n\n",
        HEAD + b"a\\n" + TAIL,
        HEAD + b"\xff" + TAIL,
        HEAD,
    ):
        run = learned().run(b"".join(said) + rest + said[0] * bool(rest))
        assert run is not None, rest
        assert run.texts == [b"one", b"", "zwei ü".encode()]
        assert run.size == len(b"".join(said))
        assert run.characters == len("onezwei ü")
    assert learned().run(HEAD + b'a","b":"' + TAIL) is None
    assert learned().run(b"data: [DONE]\n\n") is None


def test_what_is_not_proved_to_be_text_is_in_no_run() -> None:
    alike = AlikeEvents(b'"content":"')
    for _ in range(3):
        alike.learn(HEAD + b"one" + TAIL, HEAD + b"two" + TAIL, lambda event, text: False)
    assert alike.run(HEAD + b"one" + TAIL) is None


def test_stream_whose_events_are_numbered_is_looked_at_no_longer() -> None:
    alike = learned()
    for number in range(MISSES_MAX):
        alike.learn(
            b'data: {"n":%d,"content":"one"}\n\n' % number,
            b"",
            lambda event, text: True,
        )
    assert alike.has_given_up
