"""What a request becomes on its way to an upstream, and what providers refuse."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat.hostings import (
    HOSTINGS,
    call_id_for_mistral,
    for_fireworks,
    for_groq,
    for_mistral,
)
from channels.dialects.chat.members import ChatBody
from channels.dialects.chat.request import read_request
from channels.dialects.validation import MODEL_CHARACTERS_MAX, model_in
from channels.errors import InvalidRequest
from tests.support.rows import cases
from tests.unit.channels.chat_bodies import MESSAGES, body, forwarded

KNOWN = frozenset(ChatBody.__struct_fields__)


def test_other_name_upstream_replaces_the_model_only() -> None:
    request = b'{ "messages" : [{"role":"user","content":"m"}], "model" : "m" , "x": 1.50 }'
    assert forwarded(request, model='up/"stream"') == request.replace(
        b'"model" : "m"', b'"model" : "up/\\"stream\\""'
    )


def test_model_spelled_with_escapes_is_left_as_it_is() -> None:
    request = b'{"model":"\\u006d",' + MESSAGES + b"}"
    assert read_request(request).model == "m"
    assert forwarded(request) == request


SHORT, LONG = "max_tokens", "max_completion_tokens"


@cases(
    "sent, name, most, expected",
    ("", SHORT, 8000, ',"max_tokens":8000'),
    ("", LONG, 8000, ',"max_completion_tokens":8000'),
    ("", SHORT, None, ""),
    (',"max_tokens":5', SHORT, 8000, ',"max_tokens":5'),
    (',"max_tokens":999999', SHORT, 8000, ',"max_tokens":999999'),
    (',"max_tokens":5', LONG, 8000, ',"max_completion_tokens":5'),
    (',"max_completion_tokens":5', SHORT, 8000, ',"max_tokens":5'),
    (',"max_completion_tokens":5', None, 8000, ',"max_completion_tokens":5'),
    (',"max_tokens":5', None, 8000, ',"max_tokens":5'),
    ("", None, 8000, ',"max_tokens":8000'),
    (f',"{LONG}":5,"max_tokens":null', SHORT, 8, f',"{LONG}":5,"max_tokens":5'),
    (',"max_completion_tokens":5', LONG, 8, ',"max_completion_tokens":5'),
    (',"max_tokens" : null', SHORT, 8000, ',"max_tokens" : 8000'),
    (',"max_tokens":null', SHORT, None, ',"max_tokens":null'),
    (',"max_tokens":null', LONG, 8, f',"max_tokens":null,"{LONG}":8'),
    (f',"max_tokens":5,"{LONG}":5', LONG, 8, f',"max_tokens":5,"{LONG}":5'),
    (f',"max_tokens":5,"{LONG}":null', LONG, 8, f',"max_tokens":5,"{LONG}":5'),
)
def test_token_maximum_goes_under_the_channels_name(
    sent: str, name: str | None, most: int | None, expected: str
) -> None:
    start = '{"model":"m",' + MESSAGES.decode()
    request = f"{start}{sent}}}".encode()
    assert forwarded(request, name=name, most=most).decode() == f"{start}{expected}}}"


@cases(
    "sent, expected",
    (b"null", b'{"include_usage":true}'),
    (b"{}", b'{"include_usage":true}'),
    (b'{ "x": [1] }', b'{ "x": [1] ,"include_usage":true}'),
    (b'{"include_usage":false, "x":1}', b'{"include_usage":true, "x":1}'),
    (b'{"include_usage": null}', b'{"include_usage": true}'),
    (b'{"include_usage" : true }', b'{"include_usage" : true }'),
)
def test_usage_of_a_stream_is_always_requested(sent: bytes, expected: bytes) -> None:
    request = body(b'"stream_options":' + sent, b'"stream":true')
    assert forwarded(request) == request.replace(sent, expected)


@cases(
    "members, added",
    (b'"stream":true', b',"stream_options":{"include_usage":true}'),
    (b'"stream":false', b""),
    (b'"stream":false,"stream_options":{"include_usage":false}', b""),
)
def test_usage_is_requested_of_streams_alone(members: bytes, added: bytes) -> None:
    assert forwarded(body(members)) == body(members + added)


def test_ambiguous_stream_options_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_request(
            body(b'"stream":true,"stream_options":{"include_usage":true,"include_usage":false}')
        )
    assert caught.value.param == "stream_options.include_usage"


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name.casefold() not in KNOWN),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=2),
            max_leaves=4,
        ),
        max_size=4,
    ),
    st.booleans(),
    st.sampled_from([None, "max_tokens", "max_completion_tokens"]),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**6),
)
def test_unknown_members_are_forwarded(
    extra: dict[str, Any], stream: bool, name: str | None, sent: int | None, most: int | None
) -> None:
    value: dict[str, Any] = {
        **extra,
        "model": "m",
        "messages": [{"role": "user", "content": "é"}],
        "stream": stream,
    }
    if sent is not None:
        value["max_tokens"] = sent
    raw = json.dumps(value, indent=1).encode()
    result = json.loads(forwarded(raw, model="up", name=name, most=most))
    expected = {**value, "model": "up"}
    expected.pop("max_tokens", None)
    limit = sent if sent is not None else most
    if limit is not None:
        expected[name or "max_tokens"] = limit
    if stream:
        expected["stream_options"] = {"include_usage": True}
    assert result == expected


MISTRAL = HOSTINGS["mistral"]
USER = {"role": "user", "content": "Hi"}


def called(call_id: Any) -> list[dict[str, Any]]:
    """A history with one call and its result."""
    call = {"id": call_id, "type": "function", "function": {"name": "now", "arguments": "{}"}}
    return [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "noon"},
    ]


def sent(body: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(MISTRAL.body(json.dumps(body).encode(), ()))
    return written


def test_usage_is_not_requested_and_a_seed_has_its_own_name() -> None:
    body = {"model": "m", "messages": [USER], "stream": True, "seed": 7, "user": "u-1"}
    requested = {**body, "stream_options": {"include_usage": True}}
    expected = {"model": "m", "messages": [USER], "stream": True, "random_seed": 7}
    assert sent(requested) == expected


def test_what_it_takes_stays_byte_for_byte() -> None:
    text = b'{"model": "m","messages": [ {"role":"user", "content":"\\u00fc"} ],"temperature":1.0}'
    written = MISTRAL.body(text, ())
    assert b'[ {"role":"user", "content":"\\u00fc"} ]' in written
    assert b"1.0" in written
    own = json.dumps(called("gSIMJiOkT")).encode()
    assert for_mistral(own) is own


@cases("call_id", "call_a1", "toolu_01AbC", "", "gSIMJiOk-", "ü" * 9)
def test_ids_of_calls_become_nine_letters_and_digits_and_stay_matched(call_id: str) -> None:
    turns = json.loads(for_mistral(json.dumps(called(call_id)).encode()))
    made = turns[1]["tool_calls"][0]["id"]
    assert len(made) == 9
    assert made.isascii()
    assert made.isalnum()
    assert turns[2]["tool_call_id"] == made
    assert turns[0] == USER


def test_ids_that_differ_go_on_to() -> None:
    assert len({call_id_for_mistral(f"call_{number}") for number in range(1000)}) == 1000


def test_thoughts_in_the_words_of_others_stay_behind() -> None:
    message = {"role": "assistant", "content": "Yes", "reasoning_content": "Hm", "refusal": None}
    requested = {**USER, "reasoning": "a user's member is its own"}
    turns = json.loads(for_mistral(json.dumps([requested, message]).encode()))
    assert turns == [requested, {"role": "assistant", "content": "Yes"}]


@cases("mend, own", (for_groq, "reasoning"), (for_fireworks, "reasoning_content"))
def test_thoughts_in_its_own_words_stay(mend: Callable[[bytes], bytes], own: str) -> None:
    message = {"role": "assistant", "content": "Yes", "reasoning": "Hm", "reasoning_content": "Hm"}
    turns = json.loads(mend(json.dumps([USER, message]).encode()))
    assert turns == [USER, {"role": "assistant", "content": "Yes", own: "Hm"}]
    kept = json.dumps([USER, turns[1], *called("call_a1")]).encode()
    assert mend(kept) is kept


@cases(
    "messages",
    b'[{"role": 1}]',
    b'[{"content": "no role"}]',
    b'["text"]',
    b'{"a": 1}',
    b'[{"role": "assistant", "tool_calls": {"id": 1}}]',
    b'[{"role": "tool", "tool_call_id": 5}]',
)
def test_what_cannot_be_read_is_the_upstreams_to_judge(messages: bytes) -> None:
    assert for_mistral(messages) is messages


LONGEST = b"m" * MODEL_CHARACTERS_MAX


@cases(
    "body, named",
    (b'{"n": 11, "model": "picture"}', "picture"),
    (b'{"model": "a", "prompt": 5, "prompt": [{}]}', "a"),
    (b'{"model": "' + LONGEST + b'"}', LONGEST.decode()),
    (b'{"model": "' + LONGEST + b'm"}', None),
    (b'{"model": "a\\u0000b"}', None),
    (b'{"model": "\\ud800"}', None),
    (b'{"model": "\xff"}', None),
    (b'{"model": 5}', None),
    (b'{"model": null}', None),
    (b"{}", None),
    (b'{"model": "a"', None),
    (b"[]", None),
    (b"", None),
    (b'{"model": ' + b"[" * 100_000, None),
)
def test_model_in_a_body_that_is_unfit_otherwise(body: bytes, named: str | None) -> None:
    assert model_in(body) == named
