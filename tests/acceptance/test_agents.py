"""Calls with the key of an agent (reference 9.2): what is sent for them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from loadtests.rig.client import HELLO
from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import PERSONA, Tenant
from loadtests.rig.waiting import until
from tests.acceptance.agents import ME, SETTINGS, message_of
from tests.support.rows import each

__all__ = ["SETTINGS"]

DENIED = (403, "permission_error", "permission_denied")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture
def agent(h: Deployment, tenant: Tenant) -> Tenant:
    """A key of an agent that has nothing but a persona and a model."""
    return h.agent(tenant)


def test_the_client_has_its_turns_and_nothing_of_the_agents(
    h: Deployment, tenant: Tenant, agent: Tenant
) -> None:
    messages = [
        message_of("Speak French.", "system"),
        message_of("Hi"),
        message_of("Bonjour", "assistant"),
        message_of([{"type": "text", "text": "Où?"}, {"type": "new", "x": 1.5}]),
        message_of("à", "assistant"),
    ]
    reply = agent.client.chat(
        model={"any": ["thing"]},
        messages=messages,
        tools=[{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}],
        tool_choice="auto",
        functions=[{"name": "f"}],
        function_call="auto",
        parallel_tool_calls=False,
        conversation_id="c",
        session_id="s",
        Session_ID="s",
        models=["other"],
        plugins=[{"id": "web"}],
        web_search_options={},
        max_tokens=9,
        seed=7,
    )
    assert reply.status == 200, reply
    assert h.upstream.last_body() == {
        "model": "sim-model",
        "messages": [ME, *messages],
        "max_tokens": 9,
        "seed": 7,
    }
    (row,) = h.rows(tenant)
    assert (row["model"], row["status"], row["key_id"]) == ("sim-model", "success", agent.key_id)


@each("placeholder", ["", "nothing", None, 5, "m" * 300, "a\x00b"])
def test_whatever_stands_for_the_model_is_ignored(
    h: Deployment, agent: Tenant, placeholder: Any
) -> None:
    assert agent.client.chat(model=placeholder).status == 200
    body = json.dumps({"messages": [HELLO], "stream": True}).encode()
    reply = agent.client.chat(body)
    assert (reply.status, reply.is_complete) == (200, True)
    assert h.upstream.last_body()["model"] == "sim-model"


def test_the_model_is_the_agents_or_its_accounts_or_the_platforms(
    h: Deployment, tenant: Tenant
) -> None:
    agent = h.agent(tenant, model=None)
    for options, model in (
        ((), "other"),
        (("--default-model", "sim-latest"), "sim-model"),
        (("--default-model", "none"), "other"),
    ):
        if options:
            h.gw("account", "set", tenant.account, *options)
        assert agent.client.chat().status == 200
        assert h.upstream.last_body()["model"] == model
    h.gw("agent", "set", agent.agent_id, "--model", "sees")
    assert agent.client.chat().status == 200
    assert h.upstream.last_body()["model"] == "sees"
    assert [row["model"] for row in h.rows(tenant)] == ["other", "sim-model", "other", "sees"]


def outcomes(h: Deployment) -> dict[str, float]:
    return h.metrics("gw_agent_calls_total")


def refused(h: Deployment, reply: Response, agent: Tenant, reason: str) -> None:
    """A 403 of an agent's call, with its row, its count and its line in the log."""
    assert reply.refusal == DENIED
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
    assert row["error_code"] == "permission_denied"
    assert outcomes(h)[f'outcome="{reason}"'] >= 1
    lines = until(
        lambda: h.events("agent.refused", agent=agent.agent_id, reason=reason), what="its line"
    )
    assert "Ahoy" not in json.dumps(lines)


def test_what_an_agent_may_not_is_refused_from_the_next_request_on(
    h: Deployment, tenant: Tenant, tmp_path: Path
) -> None:
    agent = h.agent(tenant)
    whose = ("--account", tenant.account)
    (tmp_path / "p.md").write_text("New persona.", encoding="utf-8")
    h.gw("agent", "disable", agent.agent_id)
    refused(h, agent.client.chat(), agent, "disabled")
    h.gw("agent", "enable", agent.agent_id)
    assert agent.client.chat().status == 200
    h.gw("account", "set", tenant.account, "--allow", "other")
    refused(h, agent.client.chat(), agent, "not_allowed")
    assert tenant.client.chat().status == 200  # the list binds agents alone
    h.gw("account", "set", tenant.account, "--allow", "sim-latest")
    assert agent.client.chat().status == 200
    h.gw("account", "set", tenant.account, "--allow-none")
    refused(h, agent.client.chat(), agent, "not_allowed")
    h.gw("account", "set", tenant.account, "--allow-all")
    h.gw("agent", "set", agent.agent_id, "--system-prompt", str(tmp_path / "p.md"))
    assert agent.client.chat().status == 200
    assert h.upstream.last_body()["messages"][0] == message_of("New persona.", "system")
    gone = h.agent(tenant, model="soon")  # as one that was taken out of the configuration since
    refused(h, gone.client.chat(), gone, "no_model")
    h.gw("key", "revoke", agent.key_id)
    assert agent.client.chat().refusal[0] == 401
    assert h.gw("key", "list", *whose)["keys"]


def test_pictures_go_to_models_that_see(h: Deployment, tenant: Tenant) -> None:
    blind, seeing = h.agent(tenant), h.agent(tenant, model="sees")
    for content in ([PICTURE], [{"type": "text", "text": "?"}, PICTURE], [{**PICTURE, "a": 1}]):
        messages = [message_of(content), message_of("So?")]
        reply = blind.client.chat(messages=messages)
        assert reply.refusal == (400, "invalid_request_error", "model_no_vision")
        assert seeing.client.chat(messages=messages).status == 200
        assert h.upstream.last_body()["messages"][1:] == messages
    lenient = {"type": "image_url", "image_url": {"url": "data:"}, "text": 5}
    odd = blind.client.chat(messages=[message_of([{"type": 5}, lenient])])
    assert odd.refusal[2] == "model_no_vision"
    assert h.row(odd.trace)["status"] == "rejected"


def test_the_order_of_refusals(h: Deployment) -> None:
    poor = h.tenant(nano_usd=0)
    agent = h.agent(poor)
    h.gw("agent", "disable", agent.agent_id)
    assert agent.client.chat(b"{").refusal[0] == 402
    h.gw("account", "topup", poor.account, "1")
    assert agent.client.chat(b"{").refusal[0] == 400
    assert agent.client.chat(messages=[message_of([PICTURE])]).refusal == DENIED
    h.gw("agent", "enable", agent.agent_id)
    assert agent.client.chat(messages=[message_of([PICTURE])], max_tokens=10**9).refusal[0] == 400
    assert agent.client.chat(max_tokens=10**9).refusal[0] == 402


def test_what_an_agent_costs_is_its_accounts_and_added_up(h: Deployment, tenant: Tenant) -> None:
    agent = h.agent(tenant)
    second = h.another(tenant, kind="agent", agent_id=agent.agent_id)
    usage = {"input": 100, "output": 10}
    directive = f"[[sim {json.dumps({'usage': usage})}]] Hi"
    before = h.balance_nano_usd(tenant)
    for client in (agent.client, agent.client, second.client):
        assert client.chat(messages=[message_of(directive)]).status == 200
    h.gw("agent", "disable", agent.agent_id)
    assert agent.client.chat().status == 403
    assert before - h.balance_nano_usd(tenant) == 3 * 200_000
    h.gw("key", "revoke", second.key_id)
    result = h.gw("agent", "usage", agent.agent_id, "--period", "today")
    assert (result["requests"], result["cost_usd"], result["cost"]) == (4, "0.0006", "0.6")
    assert (result["input_tokens"], result["output_tokens"]) == (300, 30)
    assert result["status_counts"] == {"success": 3, "error": 0, "interrupted": 0, "rejected": 1}
    assert [(one["key_id"], one["requests"], one["cost_usd"]) for one in result["by_key"]] == [
        (agent.key_id, 3, "0.0004"),
        (second.key_id, 1, "0.0002"),
    ]
    assert h.verify()["ok"]


BOTH = {"web_search": True, "image_generation": True}

USAGE = {"input": 1000, "output": 100}


def request_of(text: str = "Hello", **directive: Any) -> list[Any]:
    sim = f"[[sim {json.dumps(directive)}]] " if directive else ""
    return [message_of(sim + text)]


@each(
    "model, switches, tools",
    [
        ("gpt-5", BOTH, ["web_search", "image_generation"]),
        ("gpt-5", {"web_search": True}, ["web_search"]),
        ("gpt-5", {"image_generation": True}, ["image_generation"]),
        ("gpt-5", {}, None),
        ("half", BOTH, ["web_search"]),
        ("half", {"image_generation": True}, None),
        ("untold", BOTH, None),
        ("unlinked", BOTH, None),
        ("sim-model", BOTH, None),
    ],
)
@each("stream", [True, False])
def test_a_tool_is_on_where_it_is_switched_on_and_run(
    h: Deployment, model: str, switches: Any, tools: Any, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    agent = h.agent(tenant, model=model, **switches)
    reply = agent.client.chat(
        messages=request_of(), stream=stream, tools=[{"type": "image_generation"}], max_tokens=50
    )
    assert reply.status == 200, reply
    request = h.upstream.last_request()
    body = h.upstream.last_body()
    if tools is None:
        assert request["path"] == "/v1/chat/completions"
        assert "tools" not in body
        assert body["messages"] == [ME, *request_of()]
    else:
        assert request["path"] == "/v1/responses"
        assert [tool["type"] for tool in body["tools"]] == tools
        assert PERSONA in json.dumps(body, ensure_ascii=False).encode().decode("unicode_escape")
    if stream:
        assert reply.is_complete
    else:
        assert reply.json["object"] == "chat.completion"
    (row,) = h.rows(tenant)
    assert (row["status"], row["model"]) == ("success", model)


def test_a_response_in_one_piece_is_what_the_stream_says(h: Deployment, tenant: Tenant) -> None:
    agent = h.agent(tenant, model="gpt-5", **BOTH)
    messages = request_of("Draw me a boat", usage=USAGE)
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=agent.key, max_retries=0) as sdk:
        chunks = list(
            sdk.chat.completions.create(
                model="any", messages=messages, stream=True, stream_options={"include_usage": True}
            )
        )
        whole = sdk.chat.completions.create(model="any", messages=messages)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    (choice,) = whole.choices
    assert choice.message.content is not None
    assert _unlinked(choice.message.content) == _unlinked(text)
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert whole.object == "chat.completion"
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (1000, 100)
    first, second = h.rows(tenant)
    assert first["cost_nano_usd"] == second["cost_nano_usd"] == 2_000_000
    assert chunks[-1].usage == whole.usage


def _unlinked(text: str) -> str:
    """A text without what a picture is, which differs from one time to the next."""
    return text.partition("![")[0]
