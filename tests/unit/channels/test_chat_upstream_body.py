"""What a chat-completions request becomes on its way to an upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat import InvalidRequest, read_request
from channels.dialects.chat.request import ChatBody
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


@cases(
    "sent, name, most, expected",
    (b"", "max_tokens", 8000, b',"max_tokens":8000'),
    (b"", "max_completion_tokens", 8000, b',"max_completion_tokens":8000'),
    (b"", "max_tokens", None, b""),
    (b',"max_tokens":5', "max_tokens", 8000, b',"max_tokens":5'),
    (b',"max_tokens":999999', "max_tokens", 8000, b',"max_tokens":999999'),
    (b',"max_tokens":5', "max_completion_tokens", 8000, b',"max_completion_tokens":5'),
    (b',"max_completion_tokens":5', "max_tokens", 8000, b',"max_tokens":5'),
    (b',"max_completion_tokens":5', None, 8000, b',"max_completion_tokens":5'),
    (b',"max_tokens":5', None, 8000, b',"max_tokens":5'),
    (b"", None, 8000, b',"max_tokens":8000'),
    (
        b',"max_completion_tokens":5,"max_tokens":null',
        "max_tokens",
        8,
        b',"max_completion_tokens":5,"max_tokens":5',
    ),
    (b',"max_completion_tokens":5', "max_completion_tokens", 8, b',"max_completion_tokens":5'),
    (b',"max_tokens" : null', "max_tokens", 8000, b',"max_tokens" : 8000'),
    (b',"max_tokens":null', "max_tokens", None, b',"max_tokens":null'),
    (
        b',"max_tokens":null',
        "max_completion_tokens",
        8,
        b',"max_tokens":null,"max_completion_tokens":8',
    ),
    (
        b',"max_tokens":5,"max_completion_tokens":5',
        "max_completion_tokens",
        8,
        b',"max_tokens":5,"max_completion_tokens":5',
    ),
    (
        b',"max_tokens":5,"max_completion_tokens":null',
        "max_completion_tokens",
        8,
        b',"max_tokens":5,"max_completion_tokens":5',
    ),
)
def test_token_maximum_goes_under_the_channels_name(
    sent: bytes, name: str, most: int | None, expected: bytes
) -> None:
    start = b'{"model":"m",' + MESSAGES
    assert forwarded(start + sent + b"}", name=name, most=most) == start + expected + b"}"


@cases(
    "sent, expected",
    (b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}'),
    (
        b'"stream_options":null,"stream":true',
        b'"stream_options":{"include_usage":true},"stream":true',
    ),
    (
        b'"stream":true,"stream_options":{}',
        b'"stream":true,"stream_options":{"include_usage":true}',
    ),
    (
        b'"stream":true,"stream_options":{ "x": [1] }',
        b'"stream":true,"stream_options":{ "x": [1] ,"include_usage":true}',
    ),
    (
        b'"stream":true,"stream_options":{"include_usage":false, "x":1}',
        b'"stream":true,"stream_options":{"include_usage":true, "x":1}',
    ),
    (
        b'"stream":true,"stream_options":{"include_usage": null}',
        b'"stream":true,"stream_options":{"include_usage": true}',
    ),
    (
        b'"stream":true,"stream_options":{"include_usage" : true }',
        b'"stream":true,"stream_options":{"include_usage" : true }',
    ),
    (b'"stream":false', b'"stream":false'),
    (
        b'"stream":false,"stream_options":{"include_usage":false}',
        b'"stream":false,"stream_options":{"include_usage":false}',
    ),
)
def test_stream_is_always_asked_for_usage(sent: bytes, expected: bytes) -> None:
    assert forwarded(body(sent)) == body(expected)


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
