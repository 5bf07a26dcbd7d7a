"""Requests of chat clients for upstreams that speak messages, trap by trap."""

from __future__ import annotations

from typing import Any

from channels.translation.model import ToolResult
from tests.support.rows import each
from tests.unit.translators.chat_pieces import (
    ASSISTANT,
    CACHED,
    JPEG,
    PDF,
    PNG,
    USER,
    call,
    calls,
    given,
    image,
    inline,
    result,
    text,
    use,
)
from tests.unit.translators.wire import decoded, translated

# name: messages of chat, then the upstream's `system` and `messages`, then what was dropped.
CONVERSATIONS: dict[str, tuple[list[Any], Any, list[Any], list[str]]] = {
    "text": ([USER], None, [USER], []),
    "system first": (
        [{"role": "system", "content": "be kind"}, USER],
        "be kind",
        [USER],
        [],
    ),
    "developer is system, and each keeps its own block": (
        [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER],
        [text("a"), text("b")],
        [USER],
        [],
    ),
    "system in the middle stays where it was": (
        [USER, ASSISTANT, {"role": "system", "content": "now rhyme"}, USER],
        None,
        [USER, ASSISTANT, {"role": "user", "content": [text("now rhyme"), text("hi")]}],
        ["messages.role"],
    ),
    "system between a call and its result does not part them": (
        [USER, calls(call("c1")), {"role": "system", "content": "s"}, result("c1", "42")],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("c1")]},
            {"role": "user", "content": [given("c1", content="42"), text("s")]},
        ],
        ["messages.role"],
    ),
    "instructions alone are what is asked": (
        [{"role": "system", "content": "say hi"}],
        None,
        [{"role": "user", "content": "say hi"}],
        ["messages.role"],
    ),
    "text array is not dropped": (
        [{"role": "user", "content": [text("a"), text("b")]}],
        None,
        [{"role": "user", "content": [text("a"), text("b")]}],
        [],
    ),
    "blank and empty texts go": (
        [{"role": "user", "content": [text(""), text(" \n"), text("a")]}],
        None,
        [{"role": "user", "content": "a"}],
        [],
    ),
    "neighbours merge": (
        [USER, USER, ASSISTANT, ASSISTANT],
        None,
        [
            {"role": "user", "content": [text("hi"), text("hi")]},
            {"role": "assistant", "content": [text("hello"), text("hello")]},
        ],
        [],
    ),
    "the model spoke first": (
        [ASSISTANT, USER],
        None,
        [{"role": "user", "content": "."}, ASSISTANT, USER],
        ["messages.role"],
    ),
    "the last words of the model do not end in white space": (
        [USER, {"role": "assistant", "content": "The answer is "}],
        None,
        [USER, {"role": "assistant", "content": "The answer is"}],
        [],
    ),
    "all results of one turn's calls are one turn, before the rest": (
        [
            USER,
            calls(call("c1", '{"a": 1}'), call("c2", "", "g"), content="both"),
            result("c2", "two"),
            {"role": "user", "content": "and?"},
            result("c1", [text("one")]),
        ],
        None,
        [
            USER,
            {
                "role": "assistant",
                "content": [text("both"), use("c1", {"a": 1}), use("c2", name="g")],
            },
            {
                "role": "user",
                "content": [given("c2", content="two"), given("c1", content="one"), text("and?")],
            },
        ],
        [],
    ),
    "empty results have no content": (
        [USER, calls(call("c1")), result("c1", "")],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("c1")]},
            {"role": "user", "content": [given("c1")]},
        ],
        [],
    ),
    "an orphan result stays: the upstream's refusal is the client's": (
        [USER, ASSISTANT, result("lost", "42")],
        None,
        [USER, ASSISTANT, {"role": "user", "content": [given("lost", content="42")]}],
        [],
    ),
    "ids the protocol refuses change alike in call and result": (
        [USER, calls(call("functions.f:0")), result("functions.f:0", "42")],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("functions_f_0_d6bdd4de")]},
            {"role": "user", "content": [given("functions_f_0_d6bdd4de", content="42")]},
        ],
        [],
    ),
    "arguments that are not JSON are kept under a name": (
        [USER, calls(call("c1", '{"a": ')), result("c1", "x")],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("c1", {"raw_arguments": '{"a": '})]},
            {"role": "user", "content": [given("c1", content="x")]},
        ],
        ["messages.tool_calls.function.arguments"],
    ),
    "a refusal is what the model said": (
        [USER, {"role": "assistant", "content": None, "refusal": "No."}, USER],
        None,
        [USER, {"role": "assistant", "content": "No."}, USER],
        [],
    ),
    "images by data URI and by URL": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    {"type": "image_url", "image_url": {"url": "https://a.example/x.jpg"}},
                ],
            }
        ],
        None,
        [
            {
                "role": "user",
                "content": [
                    image(inline("image/png", PNG)),
                    image({"type": "url", "url": "https://a.example/x.jpg"}),
                ],
            }
        ],
        [],
    ),
    "an image's type is what its bytes are": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"DATA:image/png;base64,{JPEG}"}}
                ],
            }
        ],
        None,
        [{"role": "user", "content": [image(inline("image/jpeg", JPEG))]}],
        [],
    ),
    "detail is reported": (
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://a.example/", "detail": "low"},
                    }
                ],
            }
        ],
        None,
        [{"role": "user", "content": [image({"type": "url", "url": "https://a.example/"})]}],
        ["messages.image_url.detail"],
    ),
    "a PDF is a document": (
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {
                            "file_data": f"data:application/pdf;base64,{PDF}",
                            "filename": "a.pdf",
                        },
                    }
                ],
            }
        ],
        None,
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": inline("application/pdf", PDF),
                        "title": "a.pdf",
                    }
                ],
            }
        ],
        [],
    ),
    "a text file is a document of text": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}},
                ],
            }
        ],
        None,
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "hi"},
                    }
                ],
            }
        ],
        [],
    ),
    "what has no block is reported, not the turn around it": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    text("hi"),
                ],
            }
        ],
        None,
        [USER],
        ["messages.input_audio", "messages.file.file_id"],
    ),
    "an image in a tool's result": (
        [
            USER,
            calls(call("c1")),
            result(
                "c1",
                [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
            ),
        ],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("c1")]},
            {
                "role": "user",
                "content": [given("c1", content=[image(inline("image/png", PNG))])],
            },
        ],
        [],
    ),
    "marks for the cache survive, and keep the string an array": (
        [
            {"role": "system", "content": [text("s", **CACHED)]},
            {"role": "user", "content": [text("hi", **CACHED)]},
        ],
        [text("s", **CACHED)],
        [{"role": "user", "content": [text("hi", **CACHED)]}],
        [],
    ),
    "other members of a part do not leak": (
        [{"role": "user", "content": [text("hi", index=3, prompt_cache_breakpoint={"mode": "x"})]}],
        None,
        [USER],
        ["messages.index", "messages.prompt_cache_breakpoint"],
    ),
    "names of participants are reported": (
        [{**USER, "name": "ada"}, {**USER, "name": "bob"}, {**ASSISTANT, "name": "hal"}],
        None,
        [
            {"role": "user", "content": [text("hi"), text("hi")]},
            ASSISTANT,
        ],
        ["messages.name"],
    ),
    "functions from before there were tools match by name": (
        [
            USER,
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "42"},
        ],
        None,
        [
            USER,
            {"role": "assistant", "content": [use("call_ddc047a74cb2c54dc4de8e5d")]},
            {
                "role": "user",
                "content": [given("call_ddc047a74cb2c54dc4de8e5d", content="42")],
            },
        ],
        [],
    ),
    "unsigned thinking does not come back as thinking, nor as text": (
        [USER, {**ASSISTANT, "reasoning_content": "hm"}, USER],
        None,
        [USER, ASSISTANT, USER],
        ["messages.reasoning_content"],
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_is_said_as_messages(name: str) -> None:
    messages, system, expected, dropped = CONVERSATIONS[name]
    body, report = translated("chat", "messages", {"model": "m", "messages": messages})
    assert body.get("system") == system
    assert body["messages"] == expected
    assert report == dropped


def test_system_in_the_middle_keeps_its_role_where_the_upstream_takes_it() -> None:
    messages = [USER, ASSISTANT, {"role": "developer", "content": "s"}, USER]
    body, dropped = translated(
        "chat", "messages", {"model": "m", "messages": messages}, has_system_turns=True
    )
    assert body["messages"] == [USER, ASSISTANT, {"role": "system", "content": "s"}, USER]
    assert dropped == []


def test_results_know_the_name_of_their_call() -> None:
    """Only some protocols say it again with the result; the others look it up."""
    messages = [
        calls(call("c1", name="f"), call("c2", name="g")),
        result("c2", "2"),
        result("c1", "1"),
        result("lost", "?"),
    ]
    turns = decoded("chat", {"messages": messages}).turns
    assert [part.name for part in turns[1].parts if isinstance(part, ToolResult)] == [
        "g",
        "f",
        None,
    ]
