"""Switches of agents: on where a channel of the model runs the tool, else silently off."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

from tests.acceptance.agents import ME, SETTINGS, said, sent
from tests.support.house import House
from tests.support.rows import each
from tests.support.tenants import PERSONA, Tenant

__all__ = ["SETTINGS"]

BOTH = {"web_search": True, "image_generation": True}
USAGE = {"input": 1000, "output": 100}


def asked(text: str = "Hello", **directive: Any) -> list[Any]:
    sim = f"[[sim {json.dumps(directive)}]] " if directive else ""
    return [said(sim + text)]


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
    h: House, model: str, switches: Any, tools: Any, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    agent = h.agent(tenant, model=model, **switches)
    reply = agent.client.chat(
        messages=asked(), stream=stream, tools=[{"type": "image_generation"}], max_tokens=50
    )
    assert reply.status == 200, reply
    request = h.upstream.last_request()
    body = sent(h)
    if tools is None:
        assert request["path"] == "/v1/chat/completions"
        assert "tools" not in body
        assert body["messages"] == [ME, *asked()]
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


def test_a_response_in_one_piece_is_what_the_stream_says(h: House, tenant: Tenant) -> None:
    agent = h.agent(tenant, model="gpt-5", **BOTH)
    messages = asked("Draw me a boat", usage=USAGE)
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=agent.key, max_retries=0) as sdk:
        chunks = list(
            sdk.chat.completions.create(
                model="any",
                messages=messages,
                stream=True,
                stream_options={"include_usage": True},
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


def test_a_failure_within_the_stream_is_an_error_in_one_piece(h: House, tenant: Tenant) -> None:
    agent = h.agent(tenant, model="gpt-5", web_search=True)
    reply = agent.client.chat(messages=asked("one two " * 20, cut_after_events=16))
    assert reply.refusal == (502, "api_error", "upstream_error")
    assert "content-type" in reply.headers
    (row,) = h.rows(tenant)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")
    assert row["cost_nano_usd"] == 0  # nothing had gone out to the client
    assert h.held_nano_usd(tenant) == 0
