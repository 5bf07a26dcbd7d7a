"""Requests of messages clients for upstreams that speak chat-completions, trap by trap."""

from __future__ import annotations

from typing import Any

import pytest

from channels.translation.model import ToolResult
from tests.unit.translators.messages_pieces import (
    ASSISTANT,
    CACHED,
    INLINE,
    PDF,
    SHOWN,
    USER,
    call,
    given,
    image,
    result,
    text,
    use,
)
from tests.unit.translators.wire import decoded, translated

# name: `system` and messages of the client, messages of the upstream, what was dropped.
CONVERSATIONS: dict[str, tuple[Any, list[Any], list[Any], list[str]]] = {
    "text": (None, [USER, ASSISTANT], [USER, ASSISTANT], []),
    "system as a string": ("be kind", [USER], [{"role": "system", "content": "be kind"}, USER], []),
    "system as blocks": (
        [text("a"), text("b", **CACHED)],
        [USER],
        [{"role": "system", "content": [text("a"), text("b")]}, USER],
        ["system.cache_control"],
    ),
    "system in the middle": (
        "first",
        [USER, ASSISTANT, {"role": "system", "content": "now rhyme"}, USER],
        [
            {"role": "system", "content": "first"},
            USER,
            ASSISTANT,
            {"role": "system", "content": "now rhyme"},
            USER,
        ],
        [],
    ),
    "text blocks": (
        None,
        [{"role": "user", "content": [text("a"), text("b", **CACHED)]}],
        [{"role": "user", "content": [text("a"), text("b")]}],
        ["messages.cache_control"],
    ),
    "calls and results": (
        None,
        [
            USER,
            {"role": "assistant", "content": [text("both"), use("c1", {"a": 1}), use("c2")]},
            {"role": "user", "content": [given("c1", "one"), given("c2", [text("two")])]},
        ],
        [
            USER,
            {
                "role": "assistant",
                "content": "both",
                "tool_calls": [call("c1", '{"a":1}'), call("c2")],
            },
            result("c1", "one"),
            result("c2", "two"),
        ],
        [],
    ),
    "results come before what else the user says": (
        None,
        [
            USER,
            {"role": "assistant", "content": [use("c1")]},
            {"role": "user", "content": [text("and?"), given("c1", "one")]},
        ],
        [
            USER,
            {"role": "assistant", "tool_calls": [call("c1")]},
            result("c1", "one"),
            {"role": "user", "content": "and?"},
        ],
        [],
    ),
    "empty and failed results": (
        None,
        [
            {"role": "assistant", "content": [use("c1"), use("c2")]},
            {"role": "user", "content": [given("c1"), given("c2", "boom", is_error=True)]},
        ],
        [
            {"role": "assistant", "tool_calls": [call("c1"), call("c2")]},
            result("c1", ""),
            result("c2", "boom"),
        ],
        ["messages.tool_result.is_error"],
    ),
    "an image in a result follows all results": (
        None,
        [
            {"role": "assistant", "content": [use("c1"), use("c2")]},
            {
                "role": "user",
                "content": [given("c1", [text("look"), INLINE]), given("c2", "two"), text("well?")],
            },
        ],
        [
            {"role": "assistant", "tool_calls": [call("c1"), call("c2")]},
            result("c1", "look"),
            result("c2", "two"),
            {"role": "user", "content": [SHOWN, text("well?")]},
        ],
        [],
    ),
    "ids longer than the protocol takes change alike": (
        None,
        [
            {"role": "assistant", "content": [use("toolu_" + "x" * 50)]},
            {"role": "user", "content": [given("toolu_" + "x" * 50, "1")]},
        ],
        [
            {"role": "assistant", "tool_calls": [call("toolu_" + "x" * 25 + "_101ea874")]},
            result("toolu_" + "x" * 25 + "_101ea874", "1"),
        ],
        [],
    ),
    "images": (
        None,
        [{"role": "user", "content": [INLINE, image(type="url", url="https://a.example/x")]}],
        [
            {
                "role": "user",
                "content": [
                    SHOWN,
                    {"type": "image_url", "image_url": {"url": "https://a.example/x"}},
                ],
            }
        ],
        [],
    ),
    "documents": (
        None,
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                        "title": "a.pdf",
                        "context": "c",
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    },
                    {"type": "document", "source": {"type": "url", "url": "https://a.example/p"}},
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [text("inner"), INLINE]},
                    },
                ],
            }
        ],
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
                    },
                    text("words"),
                    text("inner"),
                    SHOWN,
                ],
            }
        ],
        ["messages.context", "messages.document", "messages.document.source"],
    ),
    "files stored at the provider": (
        None,
        [
            {
                "role": "user",
                "content": [
                    image(type="file", file_id="f1"),
                    {"type": "document", "source": {"type": "file", "file_id": "f2"}},
                    {"type": "container_upload", "file_id": "f3"},
                    text("hi"),
                ],
            }
        ],
        [USER],
        [
            "messages.image.source.file",
            "messages.document.source.file",
            "messages.container_upload",
        ],
    ),
    "the provider's own tools go, the conversation around them stays": (
        None,
        [
            USER,
            {
                "role": "assistant",
                "content": [
                    text("I look it up."),
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                    text("It is so.", citations=[{"type": "web_search_result_location"}]),
                ],
            },
            USER,
        ],
        [
            USER,
            {"role": "assistant", "content": [text("I look it up."), text("It is so.")]},
            USER,
        ],
        ["messages.citations", "messages.server_tool_use", "messages.web_search_tool_result"],
    ),
    "search results are words": (
        None,
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "search_result",
                        "source": "https://a.example",
                        "title": "T",
                        "content": [text("found")],
                    }
                ],
            }
        ],
        [{"role": "user", "content": [text("T https://a.example"), text("found")]}],
        ["messages.search_result"],
    ),
    "thinking has no place, and becomes no text": (
        None,
        [
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "blob"},
                    text("hello"),
                ],
            },
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "blob"}]},
            USER,
        ],
        [USER, ASSISTANT, USER],
        ["messages.thinking"],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation_is_said_as_chat(name: str) -> None:
    system, messages, expected, dropped = CONVERSATIONS[name]
    client: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": messages}
    if system is not None:
        client["system"] = system
    body, report = translated("messages", "chat", client)
    assert body["messages"] == expected
    assert report == dropped


def test_results_know_the_name_of_their_call() -> None:
    """Only some protocols say it again with the result; the others look it up."""
    turns = decoded(
        "messages",
        {
            "messages": [
                {"role": "assistant", "content": [use("c1", name="f"), use("c2", name="g")]},
                {"role": "user", "content": [given("c2", "2"), given("c1", "1"), given("lost")]},
            ]
        },
    ).turns
    assert [part.name for part in turns[1].parts if isinstance(part, ToolResult)] == [
        "g",
        "f",
        None,
    ]
