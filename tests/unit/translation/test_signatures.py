"""Thoughts and their proofs, through a client of another protocol and back."""

import json
from typing import Any

from msgspec.structs import replace

from channels.dialects.gemini.signatures import ESCAPE
from channels.dialects.table import CHAT_DIALECTS
from channels.json.outline import outline
from channels.translation.losses import LossReport
from channels.translation.model import Part, Protocol, Reasoning, Text, Thinking, ToolCall
from channels.translation.session import codec
from channels.translation.signatures import opened, sealed
from tests.support.rows import cases
from tests.unit.translation.gemini.pieces import model
from tests.unit.translation.gemini.pieces import user as gemini_user
from tests.unit.translation.pieces import assistant, text, use, user
from tests.unit.translation.response import Response
from tests.unit.translation.translated import (
    body_of,
    data_of,
    decoded,
    events_from,
    response_to,
    sse,
    translated,
    whole,
    written,
)

CONTENT: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "first, ", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "blob"},
    {"type": "thinking", "thinking": "second", "signature": "sig-2"},
    {"type": "thinking", "thinking": "", "signature": "sig-of-nothing-shown"},
    text("I call."),
    use("t1", {}, name="f"),
]


def streamed_content() -> list[dict[str, Any]]:
    """The stream of CONTENT, thinking in pieces."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m"}}]
    for index, block in enumerate(CONTENT):
        start = {**block}
        deltas: list[dict[str, Any]] = []
        if block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            words = str(block["thinking"])
            for piece in (words[:3], words[3:]):
                deltas.append({"type": "thinking_delta", "thinking": piece})
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            start["text"] = ""
            deltas.append({"type": "text_delta", "text": block["text"]})
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    return [*events, {"type": "message_stop"}]


def kept_by_a_client(stream: bytes) -> dict[str, Any]:
    """The message a chat client puts together that adds up what it does not know."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in data_of(stream):
        if chunk == "[DONE]" or not chunk["choices"]:
            continue
        delta = chunk["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        if "reasoning_content" in delta:
            thought = message.get("reasoning_content", "") + delta["reasoning_content"]
            message["reasoning_content"] = thought
        for entry in delta.get("reasoning_details", []):
            message.setdefault("reasoning_details", []).append(entry)
        for piece in delta.get("tool_calls", []):
            if "id" in piece:
                calls[piece["index"]] = {
                    "id": piece["id"],
                    "type": "function",
                    "function": {**piece["function"]},
                }
            else:
                calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    message["tool_calls"] = list(calls.values())
    return message


def whole_message() -> dict[str, Any]:
    body = {"content": CONTENT, "stop_reason": "tool_use"}
    stated: dict[str, Any] = whole("chat", response_to("messages", body))["choices"][0]["message"]
    return stated


def streamed_message() -> dict[str, Any]:
    events = events_from("messages", sse(*streamed_content()))
    return kept_by_a_client(written("chat", events))


@cases("stated", whole_message(), streamed_message())
def test_signatures_survive_a_chat_client(stated: dict[str, Any]) -> None:
    assert stated["reasoning_content"] == "first, second"
    result = {"role": "tool", "tool_call_id": "t1", "content": "42"}
    client = {"messages": [user("go"), stated, result]}
    body, dropped = translated("chat", "messages", client)
    assert body["messages"][1] == {"role": "assistant", "content": CONTENT}
    assert dropped == []


def test_thinking_is_never_visible_text() -> None:
    for stated in (whole_message(), streamed_message()):
        assert stated["content"] == "I call."


def test_entries_of_the_envelope_stand_alone() -> None:
    details = streamed_message()["reasoning_details"]
    assert details == whole_message()["reasoning_details"]
    assert [entry["index"] for entry in details] == [0, 1, 2, 3]
    assert {entry["format"] for entry in details} == {"anthropic-claude-v1"}
    assert details[0]["text"] == "first, "


def test_signature_of_another_provider_is_dropped_and_reported() -> None:
    entry = {
        "type": "reasoning.text",
        "index": 0,
        "format": "google-gemini-v1",
        "text": "hm",
        "signature": "theirs",
    }
    stated = {"role": "assistant", "content": "x", "reasoning_details": [entry]}
    body, dropped = translated("chat", "messages", {"messages": [user("a"), stated]})
    assert body["messages"][1] == {"role": "assistant", "content": "x"}
    assert dropped == ["messages.reasoning_content"]


def test_envelope_of_an_unknown_maker_proves_nothing() -> None:
    entry = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "whose"}
    stated = {"role": "assistant", "content": "x", "reasoning_details": [entry, "junk", {}]}
    request = decoded("chat", {"messages": [user("a"), stated]})
    assert request.turns[1].parts == (Thinking("hm"), Text("x"))


def test_foreign_signature_comes_back_from_a_messages_client_as_it_was() -> None:
    thought = Thinking("hm", signature="theirs", signer="native")
    hidden = Thinking("", redacted="blob", signer="responses")
    response = Response(id=None, model=None, parts=(thought, hidden), finish="stop")
    content = whole("messages", response)["content"]
    assert content[0]["signature"] == "translated:native:theirs"
    request = decoded("messages", {"messages": [{"role": "assistant", "content": content}]})
    assert request.turns[0].parts == (thought, hidden)


def test_thinking_with_a_budget_is_not_requested_amid_calls_it_cannot_prove() -> None:
    """The protocol refuses such a turn; the client learns what was left out."""
    body = {
        "messages": [
            user("go"),
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ]
    }
    request = replace(decoded("chat", body), reasoning=Reasoning(budget_tokens=2048))
    report = LossReport()
    encoded = codec("messages").encode_request(
        request, model="m", stream=False, max_tokens=4000, report=report
    )
    assert "thinking" not in encoded
    assert report.dropped == ["reasoning_effort"]
    # The same request, once the thought is there.
    assistant = request.turns[1]
    proven = replace(assistant, parts=(Thinking("hm", "s", "messages"), *assistant.parts))
    request = replace(request, turns=(request.turns[0], proven, request.turns[2]))
    encoded = codec("messages").encode_request(
        request, model="m", stream=False, max_tokens=2000, report=LossReport()
    )
    assert encoded["thinking"] == {"type": "enabled", "budget_tokens": 1999}


USER: dict[str, Any] = user("Hello")
OWN: dict[str, Any] = {"type": "thinking", "thinking": "Mine.", "signature": "b3du"}
TEXT: dict[str, Any] = {"type": "text", "text": "Hi."}


def without_foreign(protocol: str, body: bytes, outlined: bytes) -> bytes:
    strip = CHAT_DIALECTS[protocol].without_foreign
    return body if strip is None else strip(body, outlined)


def kept_of(protocol: Protocol, *parts: Part) -> Any:
    """What a client of the protocol gets of an answer, and keeps."""
    response = Response(id="1", model="m", parts=parts, finish="stop")
    whole = json.loads(body_of(protocol, response, id="1", created=1, model="m"))
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


@cases(
    "protocol, body",
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
)
def test_body_without_foreign_signatures_keeps_its_bytes(protocol: str, body: bytes) -> None:
    assert without_foreign(protocol, body, outline(body)) is body


@cases("signer", "chat", "native")
def test_foreign_thoughts_stay_behind_in_messages(signer: Protocol) -> None:
    kept = kept_of("messages", foreign(signer), Text("Hi."))
    redacted = kept_of("messages", Thinking("", redacted="ZGF0YQ==", signer=signer))
    assert [block["type"] for block in (*kept, *redacted)] == [
        "thinking",
        "text",
        "redacted_thinking",
    ]
    stated = assistant([OWN, *kept, *redacted])
    body = {"messages": [USER, stated, USER], "thinking": {"type": "adaptive"}}
    left = assistant([OWN, TEXT])
    assert stripped("messages", body) == {**body, "messages": [USER, left, USER]}


def test_message_of_foreign_thoughts_alone_disappears() -> None:
    stated = assistant(kept_of("messages", foreign("native")))
    assert stripped("messages", {"messages": [USER, stated, USER]}) == {"messages": [USER, USER]}


@cases(
    "thinking, expected",
    ({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}),
    ({"type": "adaptive"}, {"type": "adaptive"}),
    (None, None),
)
def test_turn_that_goes_on_without_its_thoughts_does_not_think(
    thinking: Any, expected: Any
) -> None:
    calls = kept_of("messages", foreign("chat"), ToolCall("t", "f", "{}"))
    result = {"type": "tool_result", "tool_use_id": "t", "content": "4"}
    turns = [USER, assistant(calls), user([result])]
    found = stripped("messages", {"messages": turns, "thinking": thinking})
    assert [block["type"] for block in found["messages"][1]["content"]] == ["tool_use"]
    assert found["thinking"] == expected


def test_turn_that_has_thoughts_of_its_own_goes_on_thinking() -> None:
    calls = kept_of("messages", foreign("chat"), ToolCall("t", "f", "{}"))
    turns = [USER, assistant([OWN, *calls]), USER]
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert stripped("messages", {"messages": turns, "thinking": thinking})["thinking"] == thinking


@cases("name", "thoughtSignature", "thought_signature")
@cases("alphabet", ("", ""), ("+/", "-_"))
def test_foreign_signatures_stay_behind_in_native_content(
    name: str, alphabet: tuple[str, str]
) -> None:
    parts = kept_of(
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
    requested = gemini_user("Hello")
    body = {"contents": [requested, {"role": "model", "parts": sent}, requested], "tools": []}
    found = stripped("native", body)
    assert found["contents"][0] == found["contents"][2] == requested
    text, first, second = found["contents"][1]["parts"]
    assert text == {"text": "Hi."}
    assert first["functionCall"]["args"] == {"a": 1}
    # A call must be signed there, or say that it cannot be.
    assert first["thoughtSignature"] == ESCAPE
    assert "thoughtSignature" not in second


def test_thoughts_that_no_channel_of_responses_made_stay_behind() -> None:
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3du"}
    thoughts = (foreign("messages"), Thinking("", redacted="ZGF0YQ==", signer="messages"))
    kept = kept_of("responses", *thoughts, Thinking("Unsigned."), Text("Hi."))
    assert [item["type"] for item in kept] == ["reasoning"] * 3 + ["message"]
    assert stripped("responses", {"input": [USER, own, *kept, USER]}) == {
        "input": [USER, own, kept[-1], USER]
    }


def test_one_turn_in_place_of_an_array_is_looked_through() -> None:
    own = {"text": "Hi.", "thoughtSignature": "b3du"}
    parts = [*kept_of("native", foreign("messages")), own]
    found = stripped("native", {"contents": {"role": "model", "parts": parts}})
    assert found == {"contents": [model(own)]}
    alone = {"contents": {"role": "model", "parts": kept_of("native", foreign("messages"))[0]}}
    assert stripped("native", alone) == alone


def test_thoughts_that_nobody_signed_stay_behind_in_messages() -> None:
    kept = kept_of("messages", Thinking("Hm."), Text("Hi."))
    assert [block["type"] for block in kept] == ["thinking", "text"]
    body = {"messages": [USER, assistant([OWN, *kept]), USER]}
    assert stripped("messages", body) == {"messages": [USER, assistant([OWN, TEXT]), USER]}


def test_own_signature_travels_bare_and_a_foreign_one_tagged() -> None:
    assert sealed("s", "messages", own="messages") == "s"
    assert sealed("s", None, own="messages") == "s"
    assert opened("s", own="messages") == ("s", "messages")
    tagged = sealed("a:b", "native", own="messages")
    assert tagged == "translated:native:a:b"
    assert opened(tagged, own="messages") == ("a:b", "native")
    for odd in ("translated:", "translated:nobody:s", "translated:native"):
        assert opened(odd, own="messages") == (odd, "messages")
