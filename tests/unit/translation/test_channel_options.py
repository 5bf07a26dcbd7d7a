"""What a channel's configuration changes in a translation, and in a request of its own protocol."""

import json
from typing import Any

from channels.dialects.messages.request import read_request, upstream_body
from channels.translation.model import Protocol
from tests.support.rows import cases
from tests.unit.translation.pieces import ASSISTANT, CACHED, USER, assistant, given, text, use, user
from tests.unit.translation.translated import translated

LINE = "x-anthropic-billing-header: cc_version=2.1.332; cc_entrypoint=cli; cch=2dbb8;"
AMID = [
    {"role": "system", "content": "Be brief."},
    USER,
    ASSISTANT,
    {"role": "system", "content": "Now rhyme."},
    user("go"),
]


def test_instructions_amid_a_conversation_become_the_users_words() -> None:
    body = {"system": "first", "messages": AMID}
    sent, dropped = translated("messages", "chat", body, has_system_first=True)
    assert sent["messages"] == [
        {"role": "system", "content": [text("first"), text("Be brief.")]},
        USER,
        ASSISTANT,
        user([text("Now rhyme."), text("go")]),
    ]
    assert dropped == ["messages.role"]


@cases("client", "chat", "messages")
def test_instructions_amid_a_conversation_become_the_users_words_in_items(client: Protocol) -> None:
    for has_system_first, roles in (
        (False, ["user", "assistant", "developer", "user"]),
        (True, ["user", "assistant", "user"]),
    ):
        sent, dropped = translated(
            client, "responses", {"messages": AMID}, has_system_first=has_system_first
        )
        assert sent["instructions"] == "Be brief."
        assert [one["role"] for one in sent["input"]] == roles
        assert dropped == (["messages.role"] if has_system_first else [])


def test_instructions_after_a_result_follow_it() -> None:
    turns = [
        USER,
        assistant([use("c1")]),
        user([given("c1", "4")]),
        {"role": "system", "content": "Be careful."},
    ]
    sent, dropped = translated("messages", "chat", {"messages": turns}, has_system_first=True)
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "tool", "user"]
    assert sent["messages"][3] == user("Be careful.")
    assert dropped == ["messages.role"]


def test_developers_words_of_a_responses_client_become_the_users() -> None:
    item = {"type": "message", "role": "developer", "content": "Now rhyme."}
    body = {"instructions": "first", "input": [USER, ASSISTANT, item]}
    sent, dropped = translated("responses", "chat", body, has_system_first=True)
    assert [one["role"] for one in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert dropped == ["input.role"]


def test_instructions_at_the_beginning_alone_lose_nothing() -> None:
    body = {"system": "first", "messages": [AMID[0], USER]}
    sent, dropped = translated("messages", "chat", body, has_system_first=True)
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert dropped == []


@cases(
    "system, kept",
    ([text(LINE), text("You code.", **CACHED)], [text("You code.")]),
    ([text(f"{LINE}\n"), text("You code.")], [text("You code.")]),
    ([text(f"{LINE}\nYou code.")], [text("You code.")]),
    (f"{LINE}\n\nYou code.", [text("You code.")]),
    ([text(LINE)], None),
)
@cases("upstream", "chat", "responses")
def test_billing_header_is_left_out_of_a_translation(
    upstream: Protocol, system: Any, kept: list[Any] | None
) -> None:
    body = {"system": system, "messages": [USER]}
    sent, dropped = translated("messages", upstream, body)
    without, lost = translated("messages", upstream, {"messages": [USER], "system": kept})
    assert sent == without
    assert set(dropped) - {"system.cache_control"} == {"system.x-anthropic-billing-header"}
    assert lost == []


def stripped(system: Any, *, drops: bool = True) -> Any:
    """The body for a channel of messages, of a client with this system member."""
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": [USER]}
    raw = json.dumps(body, indent=1).encode()
    return upstream_body(read_request(raw), upstream_model="m", drops_billing_header=drops), raw


@cases(
    "system, kept",
    ([text(LINE), text("You code.", **CACHED)], [text("You code.", **CACHED)]),
    ([text(f"{LINE}\nYou code.", **CACHED)], [text("You code.", **CACHED)]),
    (f"{LINE}\nYou code.", "You code."),
    ([text(LINE)], []),
)
def test_billing_header_stays_behind_where_it_is_nobodys(system: Any, kept: Any) -> None:
    sent, raw = stripped(system)
    assert json.loads(sent) == {**json.loads(raw), "system": kept}
    assert stripped(system, drops=False)[0] is not sent
    assert stripped(system, drops=False)[0] == raw


@cases("system", "You code.", [text("You code."), text(LINE[2:])], [text(f"See {LINE}")])
def test_body_without_the_line_keeps_its_bytes(system: Any) -> None:
    sent, raw = stripped(system)
    assert sent == raw


def test_body_with_the_line_in_a_turn_keeps_its_bytes() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [user([text(LINE)])]}
    raw = json.dumps(body).encode()
    sent = upstream_body(read_request(raw), upstream_model="m", drops_billing_header=True)
    assert sent == raw


REQUESTED: dict[str, dict[str, Any]] = {
    "messages": {"messages": [USER]},
    "responses": {"input": [USER]},
    "native": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}
DIGEST = "f39cdc2584758c99cf81c1f41d2572f54e17066afffc9d187aeafe5f7cbe2122"


@cases("stated, beside, key", ("k", "", "k"), ("k", "s", "k"), (None, "s", "s"), (None, "", None))
def test_key_goes_on_to_a_channel_that_takes_it(
    stated: str | None, beside: str, key: str | None
) -> None:
    body = {**REQUESTED["responses"], **({} if stated is None else {"prompt_cache_key": stated})}
    sent, dropped = translated("responses", "chat", body, cache_key=beside)
    assert sent.get("prompt_cache_key") == key
    assert dropped == []


@cases("client", "messages", "native")
@cases("upstream", "chat", "responses")
def test_name_in_the_headers_goes_on_as_key(client: Protocol, upstream: Protocol) -> None:
    sent, dropped = translated(client, upstream, REQUESTED[client], cache_key="session")
    assert sent["prompt_cache_key"] == "session"
    assert dropped == []
    sent, dropped = translated(client, upstream, REQUESTED[client])
    assert "prompt_cache_key" not in sent
    assert dropped == []


@cases("upstream", "chat", "messages", "native")
def test_key_that_goes_nowhere_is_reported(upstream: Protocol) -> None:
    body = {**REQUESTED["responses"], "prompt_cache_key": "k"}
    sent, dropped = translated("responses", upstream, body)
    assert "prompt_cache_key" not in sent
    assert dropped == ["prompt_cache_key"]


def test_long_key_becomes_its_digest() -> None:
    body = {"messages": [USER], "prompt_cache_key": "k" * 65}
    sent, dropped = translated("chat", "responses", body)
    assert sent["prompt_cache_key"] == DIGEST
    assert dropped == ["prompt_cache_key"]
    body = {**REQUESTED["responses"], "prompt_cache_key": "k" * 65}
    sent, dropped = translated("responses", "chat", body, cache_key="")
    assert sent["prompt_cache_key"] == DIGEST
    assert len(DIGEST) == 64
    assert dropped == ["prompt_cache_key"]
    sent, dropped = translated("messages", "chat", REQUESTED["messages"], cache_key="k" * 65)
    assert sent["prompt_cache_key"] == DIGEST
    assert dropped == []
