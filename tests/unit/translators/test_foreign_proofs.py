"""A conversation that was translated before and is not any more: foreign signatures stay behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.gemini.parts import ESCAPE
from channels.dialects.table import CHAT_DIALECTS
from channels.json import outline
from channels.translation.model import Part, Protocol, Response, Text, Thinking, ToolCall
from channels.translation.session import codec

USER: dict[str, Any] = {"role": "user", "content": "Hello"}
OWN: dict[str, Any] = {"type": "thinking", "thinking": "Mine.", "signature": "b3du"}
TEXT: dict[str, Any] = {"type": "text", "text": "Hi."}


def without_foreign(protocol: str, body: bytes, outlined: bytes) -> bytes:
    strip = CHAT_DIALECTS[protocol].without_foreign
    return body if strip is None else strip(body, outlined)


def answered(protocol: Protocol, *parts: Part) -> Any:
    """What a client of the protocol gets of an answer, and keeps."""
    answer = Response(id="1", model="m", parts=parts, finish="stop")
    whole = json.loads(codec(protocol).encode_response(answer, id="1", created=1, model="m"))
    if protocol == "messages":
        return whole["content"]
    if protocol == "responses":
        return whole["output"]
    return whole["candidates"][0]["content"]["parts"]


def stripped(protocol: str, body: dict[str, Any]) -> Any:
    text = json.dumps(body).encode()
    return json.loads(without_foreign(protocol, text, outline(text)))


def foreign(signer: Protocol) -> Thinking:
    return Thinking("Hm.", signature="c2lnbmVk", signer=signer)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("messages", b'{ "messages": [{"role": "user", "content": "translated:chat:x"}],"a" : 5 }'),
        (
            "messages",
            b'{"messages":[{"role":"assistant","content":[{"type":"thinking",'
            b'"thinking":"translated:chat:x","signature":"own"}]}]}',
        ),
        ("native", b'{"contents":[{"parts":[{"text":"dHJhbnNsYXRlZDpjaGF0Ong="}]}]}'),
        (
            "native",
            b'{"contents":[{"role":"model","parts":[{"text":"x",'
            b'"thought_signature":"b3du"}, {"text": "dHJhbnNsYXRlZDpjaGF0Ong="}]}]}',
        ),
        ("chat", b'{"messages":[{"role":"assistant","content":"translated:chat:x"}]}'),
        ("responses", b'{"input":"translated:chat:x"}'),
        (
            "responses",
            b'{"input":[{"type":"reasoning","summary":[],"encrypted_content":"own"},'
            b'{"type":"function_call","call_id":"translated:chat:x"}]}',
        ),
    ],
)
def test_body_without_foreign_signatures_keeps_its_bytes(protocol: str, body: bytes) -> None:
    assert without_foreign(protocol, body, outline(body)) is body


@pytest.mark.parametrize("signer", ["chat", "native"])
def test_foreign_thoughts_stay_behind_in_messages(signer: Protocol) -> None:
    kept = answered("messages", foreign(signer), Text("Hi."))
    redacted = answered("messages", Thinking("", redacted="ZGF0YQ==", signer=signer))
    assert [block["type"] for block in (*kept, *redacted)] == [
        "thinking",
        "text",
        "redacted_thinking",
    ]
    said = {"role": "assistant", "content": [OWN, *kept, *redacted]}
    body = {"messages": [USER, said, USER], "thinking": {"type": "adaptive"}}
    left = {"role": "assistant", "content": [OWN, TEXT]}
    assert stripped("messages", body) == {**body, "messages": [USER, left, USER]}


def test_message_of_foreign_thoughts_alone_disappears() -> None:
    said = {"role": "assistant", "content": answered("messages", foreign("native"))}
    assert stripped("messages", {"messages": [USER, said, USER]}) == {"messages": [USER, USER]}


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        ({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}),
        ({"type": "adaptive"}, {"type": "adaptive"}),
        (None, None),
    ],
)
def test_turn_that_goes_on_without_its_thoughts_does_not_think(
    thinking: Any, expected: Any
) -> None:
    calls = answered("messages", foreign("chat"), ToolCall("t", "f", "{}"))
    result = {"type": "tool_result", "tool_use_id": "t", "content": "4"}
    turns = [
        USER,
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result]},
    ]
    found = stripped("messages", {"messages": turns, "thinking": thinking})
    assert [block["type"] for block in found["messages"][1]["content"]] == ["tool_use"]
    assert found["thinking"] == expected


def test_turn_that_has_thoughts_of_its_own_goes_on_thinking() -> None:
    calls = answered("messages", foreign("chat"), ToolCall("t", "f", "{}"))
    turns = [USER, {"role": "assistant", "content": [OWN, *calls]}, USER]
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert stripped("messages", {"messages": turns, "thinking": thinking})["thinking"] == thinking


@pytest.mark.parametrize("name", ["thoughtSignature", "thought_signature"])
@pytest.mark.parametrize("alphabet", [("", ""), ("+/", "-_")], ids=["standard", "for addresses"])
def test_foreign_signatures_stay_behind_in_native_content(
    name: str, alphabet: tuple[str, str]
) -> None:
    parts = answered(
        "native",
        foreign("messages"),
        Text("Hi."),
        ToolCall("t", "f", '{"a":1}', signature="c2ln", signer="chat"),
        ToolCall("u", "g", "{}"),
    )
    assert sum("thoughtSignature" in part for part in parts) == 2
    sent = []
    for part in parts:
        held = {key: value for key, value in part.items() if key != "thoughtSignature"}
        if "thoughtSignature" in part:
            held[name] = part["thoughtSignature"].translate(str.maketrans(*alphabet))
        sent.append(held)
    asked = {"role": "user", "parts": [{"text": "Hello"}]}
    body = {"contents": [asked, {"role": "model", "parts": sent}, asked], "tools": []}
    found = stripped("native", body)
    assert found["contents"][0] == found["contents"][2] == asked
    text, first, second = found["contents"][1]["parts"]
    assert text == {"text": "Hi."}
    assert first["functionCall"]["args"] == {"a": 1}
    # A call must be signed there, or say that it cannot be.
    assert first["thoughtSignature"] == ESCAPE
    assert "thoughtSignature" not in second


def test_thoughts_that_no_channel_of_responses_made_stay_behind() -> None:
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3du"}
    thoughts = (foreign("messages"), Thinking("", redacted="ZGF0YQ==", signer="messages"))
    kept = answered("responses", *thoughts, Thinking("Unsigned."), Text("Hi."))
    assert [item["type"] for item in kept] == ["reasoning"] * 3 + ["message"]
    assert stripped("responses", {"input": [USER, own, *kept, USER]}) == {
        "input": [USER, own, kept[-1], USER]
    }


def test_own_signature_beside_a_foreign_one_stays() -> None:
    own = {"text": "Hi.", "thoughtSignature": "b3du"}
    parts = [*answered("native", foreign("messages")), own]
    found = stripped("native", {"contents": [{"role": "model", "parts": parts}]})
    assert found == {"contents": [{"role": "model", "parts": [own]}]}


def test_one_turn_in_place_of_an_array_is_looked_through() -> None:
    own = {"text": "Hi.", "thoughtSignature": "b3du"}
    parts = [*answered("native", foreign("messages")), own]
    found = stripped("native", {"contents": {"role": "model", "parts": parts}})
    assert found == {"contents": [{"role": "model", "parts": [own]}]}
    alone = {"contents": {"role": "model", "parts": answered("native", foreign("messages"))[0]}}
    assert stripped("native", alone) == alone
