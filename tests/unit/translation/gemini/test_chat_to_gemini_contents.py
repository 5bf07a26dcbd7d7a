"""Conversations of chat clients for upstreams that speak native-content, trap by trap."""

from __future__ import annotations

from typing import Any

from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import (
    ESCAPE,
    HI,
    JPEG,
    PDF,
    PNG,
    call,
    file,
    inline,
    model,
    result,
    thought,
    user,
)
from tests.unit.translation.pieces import assistant, developer, image_url
from tests.unit.translation.wire import translated

USER = {"role": "user", "content": "hi"}
ASSISTANT = assistant("hello")


def called(*made: tuple[str, str, str], **members: Any) -> dict[str, Any]:
    """An assistant's message with calls: id, name and arguments."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in made
    ]
    return {"role": "assistant", "tool_calls": calls, **members}


def tool(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def image(url: str, **members: Any) -> dict[str, Any]:
    content = [image_url(url, **members)]
    return {"role": "user", "content": content}


def signed_call(format_name: str = "google") -> dict[str, Any]:
    message = called(("c", "f", "{}"))
    message["tool_calls"][0]["extra_content"] = {format_name: {"thought_signature": "sig"}}
    return message


def details(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "reasoning.text", "format": "google-gemini-v1", **one} for one in entries]


F = ("c", "f", "{}")

# name: messages of chat, then systemInstruction's texts, contents, and what was dropped.
CONVERSATIONS: dict[str, tuple[list[Any], list[str], list[Any], list[str]]] = {
    "text": ([USER], [], [HI], []),
    "system and developer are instructions": (
        [{"role": "system", "content": "a"}, developer("b"), USER],
        ["a", "b"],
        [HI],
        [],
    ),
    "system in the middle stays where it was, in the user's turn": (
        [USER, ASSISTANT, {"role": "system", "content": "rhyme"}, USER],
        [],
        [HI, model("hello"), user("rhyme", "hi")],
        ["messages.role"],
    ),
    "instructions alone are what is asked": (
        [{"role": "system", "content": "a"}],
        [],
        [user("a")],
        ["messages.role"],
    ),
    "neighbours of one role are one turn": (
        [USER, USER, ASSISTANT, ASSISTANT],
        [],
        [user("hi", "hi"), model("hello", "hello")],
        [],
    ),
    "empty texts are left out": (
        [{"role": "user", "content": [{"type": "text", "text": text} for text in ("", "hi")]}],
        [],
        [HI],
        [],
    ),
    "a refusal is text": ([USER, assistant(None, refusal="no")], [], [HI, model("no")], []),
    "a participant's name is dropped": ([{**USER, "name": "ada"}], [], [HI], ["messages.name"]),
    "a call and its result, by name and id": (
        [USER, called(F), tool("c", "42")],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": "42"}, id="c"))],
        [],
    ),
    "a result that is an object stays one": (
        [USER, called(F), tool("c", '{"a": [1, 2]}')],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"a": [1, 2]}, id="c"))],
        [],
    ),
    "a result that is any other JSON is wrapped": (
        [USER, called(F), tool("c", "[1]")],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": "[1]"}, id="c"))],
        [],
    ),
    "an empty result": (
        [USER, called(F), tool("c", "")],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": ""}, id="c"))],
        [],
    ),
    "a result in parts": (
        [USER, called(F), tool("c", [{"type": "text", "text": t} for t in ("a", "b")])],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": "a\nb"}, id="c"))],
        [],
    ),
    "an image in a result follows all results": (
        [
            USER,
            called(F, ("d", "g", "{}")),
            tool("c", image(f"data:image/png;base64,{PNG}")["content"]),
            tool("d", "x"),
        ],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c"), call("g", {}, id="d")),
            user(
                result("f", {"output": ""}, id="c"),
                result("g", {"output": "x"}, id="d"),
                inline("image/png", PNG),
            ),
        ],
        [],
    ),
    "parallel calls of one name stay apart, results in the order of the calls": (
        [USER, called(F, ("d", "f", '{"x":1}')), tool("d", "2"), tool("c", "1"), USER],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c"), call("f", {"x": 1}, id="d")),
            user(result("f", {"output": "1"}, id="c"), result("f", {"output": "2"}, id="d"), "hi"),
        ],
        [],
    ),
    "a result of no call is what the user says": (
        [USER, ASSISTANT, tool("gone", "42")],
        [],
        [HI, model("hello"), user("42")],
        ["messages.role"],
    ),
    "arguments that are no object are kept and told": (
        [USER, called(("c", "f", "{nonsense")), tool("c", "x")],
        [],
        [
            HI,
            model(call("f", {"raw_arguments": "{nonsense"}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
        ],
        ["messages.tool_calls.function.arguments"],
    ),
    "a conversation that begins with a call": (
        [called(F), tool("c", "x")],
        [],
        [
            user("."),
            model(call("f", {}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
        ],
        ["messages.role"],
    ),
    "the provider's own signature comes back on its call, and nothing is made up": (
        [USER, signed_call(), tool("c", "x")],
        [],
        [HI, model(call("f", {}, "sig", id="c")), user(result("f", {"output": "x"}, id="c"))],
        [],
    ),
    "another provider's signature is dropped": (
        [USER, signed_call("anthropic"), tool("c", "x")],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": "x"}, id="c"))],
        ["messages.tool_calls.extra_content"],
    ),
    "every step of calls has its own first": (
        [USER, called(F), tool("c", "x"), called(("d", "f", "{}"), ("e", "f", "{}"))],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
            model(call("f", {}, ESCAPE, id="d"), call("f", {}, id="e")),
        ],
        [],
    ),
    "a thought with its proof": (
        [USER, {**ASSISTANT, "reasoning_details": details({"text": "hm", "signature": "s"})}, USER],
        [],
        [HI, model(thought("hm", "s"), "hello"), HI],
        [],
    ),
    "the signature of a text comes back on the text": (
        [USER, {**ASSISTANT, "reasoning_details": details({"text": "", "signature": "s"})}, USER],
        [],
        [HI, model({"text": "hello", "thoughtSignature": "s"}), HI],
        [],
    ),
    "a thought without proof is dropped": (
        [USER, {**ASSISTANT, "reasoning_content": "hm"}, USER],
        [],
        [HI, model("hello"), HI],
        ["messages.reasoning_content"],
    ),
    "a data URI is inline data, typed by its bytes": (
        [image(f"data:image/png;base64,{JPEG}")],
        [],
        [user(inline("image/jpeg", JPEG))],
        [],
    ),
    "an address is a file": (
        [image("https://a.example/cat.webp?x=1")],
        [],
        [user(file("https://a.example/cat.webp?x=1", mimeType="image/webp"))],
        [],
    ),
    "an address that tells no type is most likely a photo": (
        [image("https://a.example/cat")],
        [],
        [user(file("https://a.example/cat", mimeType="image/jpeg"))],
        [],
    ),
    "a document": (
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": f"data:application/pdf;base64,{PDF}",
                        },
                    }
                ],
            }
        ],
        [],
        [user(inline("application/pdf", PDF))],
        ["messages.file.filename"],
    ),
    "audio": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
                ],
            }
        ],
        [],
        [user(inline("audio/wav", "UklGRg=="))],
        [],
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_of_chat_arrives(name: str) -> None:
    messages, system, contents, dropped = CONVERSATIONS[name]
    body, found = translated("chat", "native", {"model": "m", "messages": messages})
    assert body["contents"] == contents
    assert [
        part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"]
    ] == system
    assert found == dropped


@cases(
    "details, resolution, dropped",
    (["low"], "MEDIA_RESOLUTION_LOW", []),
    (["high", "high"], "MEDIA_RESOLUTION_HIGH", []),
    (["auto"], None, []),
    (["low", "auto"], None, ["messages.image_url.detail"]),
    (["low", "high"], "MEDIA_RESOLUTION_HIGH", ["messages.image_url.detail"]),
    (["original"], None, ["messages.image_url.detail"]),
)
def test_detail_of_images_is_the_resolution_of_all(
    details: list[str], resolution: str | None, dropped: list[str]
) -> None:
    messages = [image(f"data:image/png;base64,{PNG}", detail=detail) for detail in details]
    body, found = translated("chat", "native", {"model": "m", "messages": messages})
    assert body["generationConfig"].get("mediaResolution") == resolution
    assert found == dropped
