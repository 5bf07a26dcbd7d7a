"""The call of an agent: its body, its frame, its models, its collected stream."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat.instructed import (
    DROPPED,
    Instructions,
    compact_size,
    instructed_at_once,
    instructed_body,
    instructed_job,
    read_instructed,
    read_turn,
    turn_job,
)
from channels.errors import InvalidRequest
from tests.support.rows import cases

GIVEN = Instructions(model="m", persona=b'"Be brief."')
ME = {"role": "system", "content": "Be brief."}


def body_of(*contents: Any, **members: Any) -> bytes:
    messages = [{"role": "user", "content": content} for content in contents]
    return json.dumps({"messages": messages, **members}).encode()


def made(body: bytes, **given: Any) -> Any:
    return json.loads(instructed_body(body, msgspec.structs.replace(GIVEN, **given)))


def test_the_clients_bytes_stay_as_they_are() -> None:
    odd = b'{"role" :"user","content":"\\u00e9\\/", "x":1.50e0, "big":123456789012345678901}'
    body = b'{"seed":1.0, "messages": [ %b ] ,"top_p":0.10}' % odd
    for reading in ("", "R"):
        given = msgspec.structs.replace(GIVEN, reading=reading)
        written = instructed_body(body, given)
        assert odd in written
        assert b'"seed":1.0,' in written
        assert b'"top_p":0.10' in written


@given(
    st.text(max_size=30),
    st.lists(st.sampled_from(["user", "assistant", "system"]), min_size=1, max_size=6),
)
def test_what_is_read_stands_before_the_latest_question(text: str, roles: list[str]) -> None:
    messages = [{"role": role, "content": f"{text}{n}"} for n, role in enumerate(roles)]
    body = json.dumps({"messages": messages}).encode()
    turn = read_turn(body, text_characters=2000)
    if "user" not in roles:
        assert turn.text == ""
        assert made(body)["messages"] == [ME, *messages]
        return
    at = len(roles) - 1 - roles[::-1].index("user")
    assert turn.text == messages[at]["content"]
    reading = {"role": "user", "content": "R"}
    sent = made(body, reading="R")["messages"]
    assert sent == [ME, *messages[:at], reading, *messages[at:]]


def test_members_that_choose_for_the_gateway_are_dropped_in_any_case() -> None:
    members: dict[str, Any] = {name.upper(): [] for name in DROPPED}
    written = made(body_of("Hi", temperature=None, seed=1, **members, **dict.fromkeys(DROPPED, 1)))
    assert written.keys() == {"model", "messages", "seed"}


@cases("name", "Model", "MESSAGES", "Tools", "Temperature", "STREAM")
def test_what_only_looks_like_a_member_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="did you mean"):
        read_turn(body_of("Hi", **{name: "x"}), text_characters=0)


@cases(
    "content, text",
    ("abc", "abc"),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
    ([{"type": "text"}, {"type": "text", "text": 5}, {"text": "x"}, {"type": "o"}], ""),
    ([5, {"type": "text", "text": "a"}], "a"),
    (None, ""),
    ("é" * 9000, "é" * 2000),
    ([{"type": "text", "text": "x" * 1999}, {"type": "text", "text": "yz"}], "x" * 1999 + "\n"),
)
def test_the_question_is_the_text_of_the_latest_user_message(content: Any, text: str) -> None:
    assert read_turn(body_of("before", content), text_characters=2000).text == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_the_conversation_counts_as_compact_utf8(value: Any, is_ascii: bool, indent: Any) -> None:
    compact = json.dumps([value], ensure_ascii=False, separators=(",", ":"))
    written = json.dumps([value], ensure_ascii=is_ascii, indent=indent)
    assert compact_size(written.encode()) == len(compact.encode())


def test_a_body_is_made_alike_in_another_process() -> None:
    body = body_of([{"type": "image_url"}], "Hi", tools=[], stream=False)
    assert turn_job(body, 9) == (read_turn(body, text_characters=9), None)
    given = Instructions(
        model="m", persona=b'"p"', reading="R", temperature=0.5, tools=("t",), is_collected=True
    )
    request, written = instructed_job(body, given)
    assert written == instructed_body(body, given)
    whole = read_instructed(written)
    assert (request.content_bytes, request.stream) == (whole.content_bytes, True)
    assert request.object.body == b"{}"
    assert (whole.builtin_tools, whole.include_usage) == (("t",), True)


USUAL = [
    body_of("Hi"),
    body_of("Hi", stream=True, seed=1, stream_options={"include_usage": True}, temperature=None),
    body_of("Hi", [{"type": "text", "text": "x"}], model=5, max_tokens=3),
]
UNUSUAL = [
    b"{",
    b"[]",
    body_of(),
    body_of("\u00e9"),
    body_of([{"type": "image_url"}]),
    body_of([{"type": 5}]),
    body_of("Hi", tools=[]),
    body_of("Hi", Session_ID=1),
    body_of("Hi", temperature=3),
    body_of("Hi", max_tokens=1, max_completion_tokens=2),
]


@cases("temperature", None, 0.5)
def test_a_usual_body_is_made_at_once_as_it_is_in_steps(temperature: float | None) -> None:
    given = msgspec.structs.replace(GIVEN, temperature=temperature)
    for body in USUAL:
        read_turn(body, text_characters=0)
        found = instructed_at_once(body, given)
        assert found is not None
        request, written = found
        assert written == instructed_body(body, given)
        whole = read_instructed(written)
        assert request.object.body == whole.object.body
        assert request.content_bytes == whole.content_bytes
    for body in UNUSUAL:
        assert instructed_at_once(body, given) is None


def test_what_an_upstream_may_judge_is_named_as_the_client_named_it() -> None:
    body = body_of("Hi", [{"type": 5}], tools=[{"type": "function"}])
    fault = read_turn(body, text_characters=0).fault
    assert fault is not None
    assert fault.param == "messages[1].content[0].type"
    assert read_turn(body_of("Hi", tools=[{}]), text_characters=0).fault is None
