"""A chain of models: which one serves a call, what is charged for it, and who is told."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from actors.changes import CHANGES_CHANNEL, SQL, heard_by_all
from actors.store.database import Database
from gw.calls.served_models import KIND, ServedModels
from loadtests.rig.async_connection import chat
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.aio import eventually, run
from tests.support.rows import each
from tests.support.specs import make_model

DEAR = {"input": "5", "output": "20"}
SETTINGS: dict[str, Any] = {
    "translations": ["chat_to_messages", "messages_to_chat"],
    "channels": [
        *(channel(f"gpt-{n}", priority=n) for n in range(1, 4)),
        channel("claude", protocols=["messages"]),
        channel("both", protocols=["chat", "messages"]),
    ],
    "models": [
        model("gpt", "gpt-1"),
        model("gpts", "gpt-1", "gpt-2", "gpt-3"),
        model("claude", "claude", price=DEAR),
        model("small", "both", price={"input": "0.1", "output": "0.4"}),
        model("large", "both", aliases=["larger"]),
        {"id": "best", "chain": ["gpt", "claude"], "aliases": ["finest"]},
        {"id": "wide", "chain": ["gpts", "small"]},
        {"id": "sized", "chain": ["larger", "small"]},
        {"id": "lossy", "chain": ["claude", "gpt"]},
        {"id": "losing", "chain": ["claude"]},
        {"id": "of-chat", "chain": ["gpt", "claude"], "protocols": ["chat"]},
    ],
}
USAGE = {"input": 100, "output": 10}
# What 100 tokens and 10 cost at each of them.
GPT, CLAUDE, SMALL = 200_000, 700_000, 14_000


@pytest.fixture(autouse=True)
def metered(h: Deployment) -> None:
    meter(h)


def meter(h: Deployment) -> None:
    """Have every channel state the same usage, unless a test has it fail."""
    h.upstream.reset()
    for name in ("gpt-1", "gpt-2", "gpt-3", "claude", "both"):
        h.upstream.fault(name, usage=USAGE)


def ask(tenant: Tenant, **members: Any) -> Response:
    return tenant.client.chat(**{"model": "best", **members})


def detail_of(h: Deployment, tenant: Tenant, reply: Response) -> dict[str, str]:
    """The pairs that the row's owner is shown of the gateway."""
    number = h.row(reply.trace)["id"]
    shown = tenant.client.get(f"/v1/logs/{number}")
    assert shown.status == 200, shown
    return {pair["k"]: pair["v"] for pair in shown.json["gateway"]}


@each("stream", [False, True])
def test_first_model_serves_and_is_charged(h: Deployment, stream: bool) -> None:
    tenant = h.tenant()
    reply = ask(tenant, stream=stream)
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "gpt")
    assert "x-protocol-warning" not in reply.headers
    assert h.spent_nano_usd(tenant) == GPT
    row = h.row(reply.trace)
    assert (row["model"], row["status"], row["attempts"]) == ("best", "success", None)
    detail = row["detail"]
    assert (detail["served"], detail["chain"]) == ("gpt", ["gpt"])
    assert detail["price"]["input"] == "1"
    pairs = detail_of(h, tenant, reply)
    assert (pairs["served_model"], pairs["cost_usd"]) == ("gpt", "0.0002")
    assert pairs["price_input_uncached_usd_per_1m"] == "1"


@each("stream", [False, True])
def test_next_model_serves_when_the_first_fails_and_is_charged_at_its_price(
    h: Deployment, stream: bool
) -> None:
    meter(h)
    tenant = h.tenant()
    h.upstream.fault("gpt-1", status=500)
    reply = ask(tenant, stream=stream)
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "claude")
    assert reply.headers["x-protocol-translation"] == "openai_chat_to_anthropic_messages"
    assert reply.is_complete or not stream
    assert h.spent_nano_usd(tenant) == CLAUDE
    row = h.row(reply.trace)
    assert [one["error_code"] for one in row["attempts"]] == ["upstream_500"]
    assert (row["detail"]["served"], row["detail"]["chain"]) == ("claude", ["gpt", "claude"])
    pairs = detail_of(h, tenant, reply)
    assert pairs["served_model"] == "claude"
    assert (pairs["attempt_1_model"], pairs["attempt_2_model"]) == ("gpt", "claude")
    assert pairs["price_input_uncached_usd_per_1m"] == "5"
    assert pairs["cost_usd"] == "0.0007"


def test_dearest_model_is_held_for(h: Deployment) -> None:
    # 1,000 tokens out cost 0.01 USD at the first model, and 0.02 at the other.
    tenant = h.tenant(nano_usd=15_000_000)
    assert ask(tenant, model="gpt", max_tokens=1000).status == 200
    refused = ask(tenant, max_tokens=1000)
    assert (refused.status, refused.code) == (402, "quota_exceeded")
    assert h.upstream.requested("gpt-1", "claude") == [1, 0]
    assert h.held_nano_usd(tenant) == 0


def test_one_of_three_tries_is_kept_for_the_next_model(h: Deployment) -> None:
    tenant = h.tenant()
    for name in ("gpt-1", "gpt-2", "gpt-3"):
        h.upstream.fault(name, status=503)
    reply = ask(tenant, model="wide")
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "small")
    assert h.upstream.requested("gpt-1", "gpt-2", "gpt-3", "both") == [1, 1, 0, 1]
    assert h.spent_nano_usd(tenant) == SMALL


def test_no_model_after_three_tries(h: Deployment) -> None:
    tenant = h.tenant()
    for name in ("gpt-1", "gpt-2", "gpt-3", "both"):
        h.upstream.fault(name, status=503)
    reply = ask(tenant, model="wide")
    assert (reply.status, reply.code) == (503, "upstream_error")
    assert h.upstream.requested("gpt-1", "gpt-2", "gpt-3", "both") == [1, 1, 0, 1]
    assert h.spent_nano_usd(tenant) == 0
    assert h.held_nano_usd(tenant) == 0


def test_one_channel_is_tried_for_each_of_its_models(h: Deployment) -> None:
    tenant = h.tenant()
    h.upstream.fault("both", status=500, times=1)
    reply = ask(tenant, model="sized")
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "small")
    assert h.upstream.last_body()["model"] == "small"
    assert h.row(reply.trace)["detail"]["price"]["input"] == "0.1"


def test_refusal_of_the_request_is_the_clients(h: Deployment) -> None:
    tenant = h.tenant()
    h.upstream.fault("gpt-1", status=400)
    reply = ask(tenant)
    assert (reply.status, reply.headers["x-gateway-model"]) == (400, "gpt")
    assert h.upstream.requested("gpt-1", "claude") == [1, 0]
    assert h.spent_nano_usd(tenant) == 0


def test_nothing_is_tried_after_the_first_byte(h: Deployment) -> None:
    tenant = h.tenant()
    h.upstream.fault("gpt-1", cut_after_events=3)
    reply = ask(tenant, stream=True)
    assert (reply.status, reply.is_broken) == (200, True)
    assert reply.headers["x-gateway-model"] == "gpt"
    assert h.upstream.requested("gpt-1", "claude") == [1, 0]


LOST = {"logit_bias": {"50256": -100}}


@each("stream", [False, True])
def test_model_that_would_lose_a_member_is_skipped_and_named(h: Deployment, stream: bool) -> None:
    meter(h)
    tenant = h.tenant()
    reply = ask(tenant, model="lossy", stream=stream, **LOST)
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "gpt")
    assert reply.headers["x-protocol-warning"] == "skipped claude: logit_bias"
    assert h.upstream.requested("claude", "gpt-1") == [0, 1]
    assert h.upstream.last_body()["logit_bias"] == LOST["logit_bias"]
    row = h.row(reply.trace)
    assert row["detail"]["skipped"] == {"claude": ["logit_bias"]}
    assert (row["attempts"], row["channel_id"]) == (None, "gpt-1")
    assert detail_of(h, tenant, reply)["skipped"] == "claude: logit_bias"
    assert h.spent_nano_usd(tenant) == GPT


def test_model_that_loses_is_no_way_out_when_another_fails(h: Deployment) -> None:
    tenant = h.tenant()
    h.upstream.fault("gpt-1", status=500)
    reply = ask(tenant, model="lossy", **LOST)
    assert (reply.status, reply.code) == (500, "upstream_error")
    assert h.upstream.requested("claude") == [0]


def test_where_every_model_loses_something_the_first_serves_with_its_warning(
    h: Deployment,
) -> None:
    tenant = h.tenant()
    reply = ask(tenant, model="losing", **LOST)
    assert (reply.status, reply.headers["x-gateway-model"]) == (200, "claude")
    assert reply.headers["x-protocol-warning"] == "logit_bias"
    strict = tenant.client.send(
        "POST",
        "/v1/chat/completions",
        {"model": "losing", "messages": [{"role": "user", "content": "Hi"}], **LOST},
        headers={"x-protocol-strict": "1"},
    )
    assert strict.status == 400
    assert "logit_bias" in strict.json["error"]["message"]


def test_conversation_stays_with_the_model_that_served_it(h: Deployment) -> None:
    tenant = h.tenant()
    named = {"session_id": "conversation-1"}

    def served(**headers: str) -> str:
        reply = tenant.client.chat(headers=headers, model="best")
        assert reply.status == 200, reply
        return reply.headers["x-gateway-model"]

    assert served(**named) == "gpt"
    h.upstream.fault("gpt-1", status=500, times=1)
    assert served(**named) == "claude"
    assert served(**named) == "claude"
    assert served() == "gpt"
    assert served(session_id="another") == "gpt"
    # And goes on elsewhere where that one fails.
    h.upstream.fault("claude", status=500, times=1)
    assert [served(**named), served(**named)] == ["gpt", "gpt"]


def test_every_process_learns_which_model_serves_a_conversation(h: Deployment) -> None:
    """By what one sends over the database when that changes."""
    tenant = h.tenant()
    best = make_model(id="best", chain=(make_model(id="gpt"), make_model(id="claude")))
    pins = {name: f"{tenant.account}/{name}" for name in ("conversation-2", "conversation-3")}
    other = ServedModels()

    async def main() -> None:
        def take(change: str) -> None:
            kind, _, told = change.partition(":")
            if kind == KIND:
                other.heard(told, 0.0)

        async def send(change: str) -> None:
            await database.fetch_one(SQL["send"], (change,))

        def known_there() -> str:
            return other.order(best, pins["conversation-2"], 1.0)[0].id

        def served(name: str) -> str:
            reply = tenant.client.chat(headers={"session_id": name}, model="best")
            return reply.headers["x-gateway-model"]

        async with Database(h.settings["database_url"]) as database:
            await database.listen(CHANGES_CHANNEL, take, lambda: None)
            h.upstream.fault("gpt-1", status=500, times=1)
            assert served("conversation-2") == "claude"
            await eventually(lambda: known_there() == "claude", what="the other process knows it")
            other.keep(best, pins["conversation-3"], "claude", 1.0)
            await other.share(send)
            assert await heard_by_all(database, token="served")
            assert served("conversation-3") == "claude"

    run(main())


def test_key_needs_the_chain_and_none_of_its_models(h: Deployment) -> None:
    tenant = h.tenant(allowed_models=["best"])
    assert ask(tenant).headers["x-gateway-model"] == "gpt"
    assert ask(tenant, model="finest").status == 200
    assert ask(tenant, model="gpt").code == "model_not_allowed"
    other = h.tenant(allowed_models=["gpt", "claude"])
    assert ask(other).code == "model_not_allowed"
    listed = tenant.client.get("/v1/models").json["data"]
    assert [one["id"] for one in listed] == ["best"]


def test_catalog_has_chains_with_their_models_and_no_price(h: Deployment) -> None:
    entries = {one["id"]: one for one in h.client.get("/api/v1/models/public").json["models"]}
    assert entries["best"]["chain"] == ["gpt", "claude"]
    assert entries["sized"]["chain"] == ["large", "small"]
    assert (entries["best"]["input_price"], entries["best"]["output_price"]) == (None, None)
    assert entries["best"]["supported_protocols"] == ["chat_completions", "messages"]
    assert entries["of-chat"]["supported_protocols"] == ["chat_completions"]
    assert "chain" not in entries["gpt"]


def test_chain_is_served_by_its_protocols_alone(h: Deployment) -> None:
    tenant = h.tenant()
    assert ask(tenant, model="of-chat").status == 200
    body = {"model": "of-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    refused = tenant.client.send("POST", "/v1/messages", body)
    assert refused.status == 503
    assert "chat_completions" in refused.json["error"]["message"]
    assert h.spent_nano_usd(tenant) > 0


def budget(h: Deployment, tenant: Tenant, name: str, limit_usd: str) -> None:
    """A budget of the model of this name."""
    words = f"--name={name} --scope=model --subject={name} --limit-usd={limit_usd} --period=total"
    h.gw("budget", "create", "--account", tenant.account, *words.split())


def sums(tenant: Tenant) -> dict[str, tuple[str, str]]:
    """What was spent of each budget, and what is held."""
    listed = tenant.client.get("/v1/budgets").json["data"]
    return {one["name"]: (one["spent_usd"], one["held_usd"]) for one in listed}


def test_call_costs_on_the_budgets_of_the_chain_and_of_the_model_that_served_it(
    h: Deployment,
) -> None:
    tenant = h.tenant()
    # Two calls of the other model would cost more than the first may.
    for name, limit_usd in (("best", "1"), ("gpt", "0.02"), ("claude", "1")):
        budget(h, tenant, name, limit_usd)
    assert ask(tenant, max_tokens=700).headers["x-gateway-model"] == "gpt"
    assert ask(tenant, max_tokens=700, model="gpt").status == 200
    h.upstream.fault("gpt-1", status=500)
    h.upstream.fault("claude", usage={"input": 100, "output": 600})
    # Once written by the ledger, then out of leases.
    for calls in (1, 2, 3):
        stream = calls == 2
        assert ask(tenant, stream=stream, max_tokens=700).headers["x-gateway-model"] == "claude"
        assert sums(tenant) == {
            "best": (f"{0.0002 + calls * 0.0125:.4f}", "0"),
            "gpt": ("0.0004", "0"),
            "claude": (f"{calls * 0.0125:.4f}".rstrip("0"), "0"),
        }
    h.upstream.fault("claude", status=500)
    assert ask(tenant, max_tokens=700).code == "upstream_error"
    assert sums(tenant)["gpt"] == ("0.0004", "0")
    assert h.gw("ledger", "verify", "--costs")["faults"] == []


def test_call_is_refused_where_a_model_that_may_serve_it_has_no_room(h: Deployment) -> None:
    tenant = h.tenant()
    budget(h, tenant, "claude", "0.001")
    refused = ask(tenant, max_tokens=1000)
    assert refused.status == 402
    assert '"claude"' in refused.json["error"]["message"]
    assert refused.headers["x-gateway-budget"].startswith("bud_")
    assert ask(tenant, model="gpt", max_tokens=1000).status == 200
    # What would not be told all of it cannot serve it, but that is seen when it is its turn.
    assert ask(tenant, max_tokens=10).status == 200


@pytest.mark.long
def test_killed_call_is_charged_for_the_model_that_was_serving(
    database_url: str, tmp_path: Path
) -> None:
    async def main(h: Deployment, tenant: Tenant) -> None:
        h.upstream.fault("gpt-1", status=500)
        h.upstream.fault("claude", endless=True, delay_event_ms=50)
        calls = asyncio.gather(
            *(chat(h.gateway.url, tenant.key, model="best", stream=True) for _ in range(3))
        )
        await eventually(lambda: delivered(h) == 3, what="reported deliveries")
        h.gateway.kill()
        assert all(one.is_broken for one in await calls)
        h.gateway.close()
        h.start()
        await eventually(lambda: h.held_nano_usd(tenant) == 0, what="no hold is left")
        served = h.query("SELECT DISTINCT detail ->> 'served' AS model FROM call_logs")
        assert [one["model"] for one in served] == ["claude"]
        query = "SELECT name, spent_nano_usd FROM budget_sums s JOIN budgets b ON b.id = budget_id"
        spent = {row["name"]: row["spent_nano_usd"] for row in h.query(query)}
        assert spent["best"] == spent["claude"] > spent["gpt"] == 0
        assert h.gw("ledger", "verify", "--costs")["faults"] == []

    def delivered(h: Deployment) -> int:
        query = "SELECT count(*) AS count FROM holds WHERE delivered IS NOT NULL"
        return int(h.query(query)[0]["count"])

    with deployment(database_url, tmp_path, **SETTINGS) as h:
        tenant = h.tenant()
        for name in ("best", "gpt", "claude"):
            budget(h, tenant, name, "1")
        run(main(h, tenant))


@pytest.fixture
def openai(h: Deployment, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client


def test_official_libraries_are_served_by_either_model(
    h: Deployment, openai: OpenAI, tenant: Tenant
) -> None:
    for fails, model_id in ((None, "gpt"), ("gpt-1", "claude")):
        meter(h)
        if fails is not None:
            h.upstream.fault(fails, status=500)
        raw = openai.chat.completions.with_raw_response.create(
            model="best", messages=[{"role": "user", "content": "Hello"}]
        )
        assert raw.headers["x-gateway-model"] == model_id
        assert raw.parse().choices[0].message.content
        stream = openai.chat.completions.create(
            model="best", messages=[{"role": "user", "content": "Hello"}], stream=True
        )
        assert "".join(one.choices[0].delta.content or "" for one in stream if one.choices)
    meter(h)
    h.upstream.fault("gpt-1", status=500)
    with Anthropic(base_url=h.gateway.url, api_key=tenant.key, max_retries=0) as messages:
        made = messages.messages.with_raw_response.create(
            model="best", max_tokens=50, messages=[{"role": "user", "content": "Hello"}]
        )
        assert made.headers["x-gateway-model"] == "claude"
        assert made.parse().content
