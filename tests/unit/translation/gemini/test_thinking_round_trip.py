"""Signatures of thoughts and calls, and their way back to their maker."""

from typing import Any

from channels.dialects.gemini.signatures import (
    ESCAPE,
    Signature,
    read_signature,
    write_redacted,
    write_signature,
)
from channels.translation.model import Part, Text, Thinking, ToolCall
from tests.support.rows import cases
from tests.unit.translation.gemini.pieces import HI, call, chunk, model, result, thought, user
from tests.unit.translation.pieces import text, use
from tests.unit.translation.response import Response
from tests.unit.translation.translated import response_to, translated, whole

USER = {"role": "user", "content": "hi"}


def sent_back(message: dict[str, Any]) -> list[Any]:
    """The contents a native-content upstream is sent when a chat client returns a message."""
    results = [
        {"role": "tool", "tool_call_id": made["id"], "content": "x"}
        for made in message.get("tool_calls", ())
    ]
    body = {"model": "m", "messages": [USER, message, *results]}
    contents: list[Any] = translated("chat", "native", body)[0]["contents"]
    return contents


def test_signature_of_a_call_comes_back_by_a_chat_client() -> None:
    stated = chunk(
        thought("hm"), call("f", {"a": 1}, "sig", id="x"), call("g", id="y"), finishReason="STOP"
    )
    message = whole("chat", response_to("native", stated))["choices"][0]["message"]
    assert sent_back(message) == [
        HI,
        model(call("f", {"a": 1}, "sig", id="x"), call("g", {}, id="y")),
        user(result("f", {"output": "x"}, id="x"), result("g", {"output": "x"}, id="y")),
    ]


THOUGHTS: tuple[Part, ...] = (
    Thinking("hm", "sig/+=", "messages"),
    Thinking("", redacted="da/ta", signer="messages"),
    Thinking("", "empty", "messages"),
    Text("a"),
    ToolCall("x", "f", "{}"),
)
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "sig/+="},
    {"type": "redacted_thinking", "data": "da/ta"},
    {"type": "thinking", "thinking": "", "signature": "empty"},
    text("a"),
    use("x", {}, name="f"),
]
RESPONSE = Response(id="u", model="m", parts=THOUGHTS, finish="tool_calls")


def given_back(parts: list[Any]) -> list[Any]:
    """The blocks a messages upstream is sent when a native-content client returns parts."""
    body = {"contents": [HI, {"role": "model", "parts": parts}, user(result("f", id="x"))]}
    sent, dropped = translated("native", "messages", body)
    assert dropped == []
    blocks: list[Any] = sent["messages"][1]["content"]
    return blocks


def test_thoughts_of_another_provider_come_back_by_a_gemini_client() -> None:
    parts = whole("native", RESPONSE)["candidates"][0]["content"]["parts"]
    assert given_back(parts) == BLOCKS


@cases("signer", "chat", "messages", "responses")
@cases("value", "s", "a/b+c==", "ä€", "redacted", "translated:x", "x" * 5000)
def test_foreign_signature_survives_its_envelope(signer: Any, value: str) -> None:
    field = write_signature(value, signer)
    assert read_signature(field) == Signature(value, signer)
    # Official clients send it back in the other alphabet, some without padding.
    other = field.translate(str.maketrans("+/", "-_"))
    assert read_signature(other) == Signature(value, signer)
    assert read_signature(other.rstrip("=")) == Signature(value, signer)
    hidden = write_redacted(value, signer)
    assert read_signature(hidden) == Signature(value, signer, is_redacted=True)


@cases("field", "AY89a1==", "dHJhbnNsYXRlZDp4", "dHJhbnNsYXRlZDo!!", "dHJhbnNsYXRlZDr//w==")
def test_signature_of_this_provider_is_left_alone(field: str) -> None:
    assert read_signature(field) == Signature(field, "native")
    assert write_signature(field, "native") == field
    assert write_signature(field, None) == field


@cases(
    "field",
    None,
    "",
    7,
    ESCAPE,
    "context_engineering_is_the_way_to_go",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
)
def test_value_that_skips_the_check_is_no_signature(field: object) -> None:
    assert read_signature(field) is None
