"""A message without content: said where the upstream's protocol has such, else refused.

Leaving it out would make another conversation of it, such as one that ends with the model's turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.model import Protocol
from channels.translation.session import TRANSLATIONS
from tests.support.rows import each
from tests.unit.translators.wire import translated

PATHS: list[tuple[Protocol, Protocol]] = list(TRANSLATIONS)
# Upstreams' protocols in which a message may be empty.
SAYS_EMPTY: tuple[Protocol, ...] = ("chat", "responses")

THOUGHT = {"thought": True, "text": ""}
NOTHING: dict[Protocol, list[Any]] = {
    "chat": ["", [], None, [{"type": "text", "text": ""}]],
    "messages": ["", [], [{"type": "text", "text": ""}]],
    "native": [[], [{"text": ""}], [{}], [{"text": None}], [THOUGHT]],
    "responses": ["", [], [{"type": "input_text", "text": ""}]],
}
# The member that holds the conversation, where it has another name.
TURNS: dict[Protocol, str] = {"native": "contents", "responses": "input"}
ASSISTANT: dict[Protocol, str] = {
    "chat": "assistant",
    "messages": "assistant",
    "native": "model",
    "responses": "assistant",
}


def message(client: Protocol, role: str, content: Any) -> dict[str, Any]:
    if client == "native":
        parts = [{"text": content}] if isinstance(content, str) else content
        return {"role": role, "parts": parts}
    return {"role": role, "content": content}


def request(client: Protocol, *messages: dict[str, Any]) -> dict[str, Any]:
    if client == "native":
        return {"contents": list(messages)}
    return {"model": "m", "max_tokens": 100, TURNS.get(client, "messages"): list(messages)}


def path_of(client: Protocol, index: int) -> str:
    if client == "native":
        return f"contents[{index}].parts"
    return f"{TURNS.get(client, 'messages')}[{index}].content"


def said(upstream: Protocol, sent: dict[str, Any]) -> list[tuple[str, Any]]:
    """Roles and contents of a chat or responses body, a lone empty part as the text it is."""
    found = []
    for one in sent["input" if upstream == "responses" else "messages"]:
        content = one["content"]
        if isinstance(content, list) and len(content) == 1:
            content = content[0]["text"]
        found.append((one["role"], content))
    return found


CASES = [(client, upstream, content) for client, upstream in PATHS for content in NOTHING[client]]


@each("client, upstream, content", CASES)
@each("place", [0, 2, 4])
def test_empty_message_of_the_user(
    client: Protocol, upstream: Protocol, content: Any, place: int
) -> None:
    words = ["A", "B", "C", "D", "E"]
    messages = [
        message(client, ASSISTANT[client] if index % 2 else "user", word)
        for index, word in enumerate(words)
    ]
    messages[place] = message(client, "user", content)
    words[place] = ""
    check(client, upstream, request(client, *messages), place, words)


@each("client, upstream, content", CASES)
@each("place", [0, 1, 2])
def test_empty_message_of_the_model(
    client: Protocol, upstream: Protocol, content: Any, place: int
) -> None:
    words = ["A", "B", "C"]
    other = (place + 1) % 2
    messages = [
        message(client, "user" if index % 2 == other else ASSISTANT[client], word)
        for index, word in enumerate(words)
    ]
    messages[place] = message(client, ASSISTANT[client], content)
    words[place] = ""
    check(client, upstream, request(client, *messages), place, words)


def check(
    client: Protocol, upstream: Protocol, body: dict[str, Any], place: int, words: list[str]
) -> None:
    if upstream not in SAYS_EMPTY:
        with pytest.raises(InvalidRequest) as refusal:
            translated(client, upstream, body)
        assert refusal.value.param == path_of(client, place)
        return
    sent, _ = translated(client, upstream, body)
    turns = body[TURNS.get(client, "messages")]
    roles = ["assistant" if turn["role"] == "model" else turn["role"] for turn in turns]
    assert said(upstream, sent) == list(zip(roles, words, strict=True))


@each("client, upstream, content", CASES)
def test_only_message_is_empty(client: Protocol, upstream: Protocol, content: Any) -> None:
    check(client, upstream, request(client, message(client, "user", content)), 0, [""])


@each("client, upstream, content", CASES)
def test_empty_message_beside_one_of_its_role(
    client: Protocol, upstream: Protocol, content: Any
) -> None:
    """Neighbours of one role are one turn, which says what it says without the empty one."""
    body = request(client, message(client, "user", "A"), message(client, "user", content))
    if upstream not in SAYS_EMPTY:
        with pytest.raises(InvalidRequest) as refusal:
            translated(client, upstream, body)
        assert refusal.value.param == path_of(client, 1)
    else:
        assert said(upstream, translated(client, upstream, body)[0]) == [("user", "A")]


# --- Instructions, which may be none ---


@pytest.mark.parametrize(("client", "upstream"), PATHS)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_empty_instructions_are_none(client: Protocol, upstream: Protocol, role: str) -> None:
    if client == "native":
        empty = {
            **request(client, message(client, "user", "A")),
            "systemInstruction": {"parts": []},
        }
        plain = request(client, message(client, "user", "A"))
    elif client == "messages" and role == "developer":
        empty = {**request(client, message(client, "user", "A")), "system": ""}
        plain = request(client, message(client, "user", "A"))
    else:
        turns = [message(client, "user", "A"), message(client, ASSISTANT[client], "B")]
        more = message(client, "user", "C")
        nothing = message(client, role, "")
        empty = request(client, nothing, *turns, nothing, more)
        plain = request(client, *turns, more)
    assert translated(client, upstream, empty) == translated(client, upstream, plain)


@pytest.mark.parametrize(
    ("client", "upstream"),
    [path for path in PATHS if path[0] != "native" and path[1] != "responses"],
)
def test_empty_instructions_alone_are_no_conversation(client: Protocol, upstream: Protocol) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        translated(client, upstream, request(client, message(client, "system", "")))
    assert refusal.value.param == TURNS.get(client, "messages")


# --- What a tool gave back ---


@pytest.mark.parametrize("content", ["", [], None])
@pytest.mark.parametrize("upstream", [upstream for client, upstream in PATHS if client == "chat"])
def test_empty_result_is_a_result(upstream: Protocol, content: Any) -> None:
    function = {"name": "f", "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    body = request(
        "chat",
        message("chat", "user", "A"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": content},
    )
    sent, dropped = translated("chat", upstream, body)
    assert dropped == []
    told = str(sent)
    assert "tool_result" in told or "functionResponse" in told or "function_call_output" in told


# --- Messages of which nothing can be said ---

UNSAYABLE: dict[str, tuple[Protocol, Protocol, dict[str, Any]]] = {
    "blank": ("chat", "messages", message("chat", "user", " \n")),
    "blank by native-content": ("native", "messages", message("native", "user", " ")),
    "a video": (
        "chat",
        "messages",
        message(
            "chat", "user", [{"type": "video_url", "video_url": {"url": "https://a.example/v.mp4"}}]
        ),
    ),
    "an unknown part": ("chat", "native", message("chat", "user", [{"type": "telepathy"}])),
    "thinking without proof": (
        "chat",
        "messages",
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
    ),
    "thinking without proof to native-content": (
        "chat",
        "native",
        {"role": "assistant", "content": None, "reasoning_content": "Hm."},
    ),
}


@pytest.mark.parametrize(
    ("client", "upstream", "unsayable"), UNSAYABLE.values(), ids=list(UNSAYABLE)
)
def test_message_of_which_nothing_can_be_said_is_refused(
    client: Protocol, upstream: Protocol, unsayable: dict[str, Any]
) -> None:
    is_users = unsayable["role"] == "user"
    before = message(client, ASSISTANT[client] if is_users else "user", "A")
    with pytest.raises(InvalidRequest) as refusal:
        translated(client, upstream, request(client, before, unsayable))
    assert refusal.value.param is not None


@pytest.mark.parametrize("upstream", ["messages", "native"])
def test_thought_that_is_no_part_of_a_message_is_left_out_alone(upstream: Protocol) -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    turns = [message("responses", "user", "A"), message("responses", "user", "B")]
    plain, _ = translated("responses", upstream, request("responses", *turns))
    turns.insert(1, thought)
    sent, dropped = translated("responses", upstream, request("responses", *turns))
    assert sent == plain
    assert "input.reasoning" in dropped


def test_thinking_alone_leaves_an_empty_turn_where_there_may_be_one() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = request(
        "messages",
        message("messages", "user", "A"),
        message("messages", "assistant", [thinking]),
        message("messages", "user", "B"),
    )
    sent, dropped = translated("messages", "chat", body)
    assert said("chat", sent) == [("user", "A"), ("assistant", ""), ("user", "B")]
    assert dropped == ["messages.thinking"]
