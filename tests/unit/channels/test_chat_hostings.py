"""What providers refuse is not sent to them, and everything else is sent as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from channels.dialects.chat.dialect import (
    HOSTINGS,
    call_id_for_mistral,
    for_fireworks,
    for_groq,
    for_mistral,
)
from tests.support.rows import cases

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


def test_usage_is_not_asked_for_and_a_seed_has_its_own_name() -> None:
    body = {"model": "m", "messages": [USER], "stream": True, "seed": 7, "user": "u-1"}
    asked = {**body, "stream_options": {"include_usage": True}}
    expected = {"model": "m", "messages": [USER], "stream": True, "random_seed": 7}
    assert sent(asked) == expected


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
    said = {"role": "assistant", "content": "Yes", "reasoning_content": "Hm", "refusal": None}
    asked = {**USER, "reasoning": "a user's member is its own"}
    turns = json.loads(for_mistral(json.dumps([asked, said]).encode()))
    assert turns == [asked, {"role": "assistant", "content": "Yes"}]


@cases("mend, own", (for_groq, "reasoning"), (for_fireworks, "reasoning_content"))
def test_thoughts_in_its_own_words_stay(mend: Callable[[bytes], bytes], own: str) -> None:
    said = {"role": "assistant", "content": "Yes", "reasoning": "Hm", "reasoning_content": "Hm"}
    turns = json.loads(mend(json.dumps([USER, said]).encode()))
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
