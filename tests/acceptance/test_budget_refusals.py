"""What clients meet at a budget: every billed endpoint, every scope, the words of a refusal."""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from openai import OpenAI
from websockets.sync.client import connect

from gw.app import routes
from loadtests.rig.client import HELLO, nano_usd
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from tests.acceptance import submissions, test_busy_upstream
from tests.acceptance.budgets import HEADER, WARNING, current, facts, make
from tests.support.console import visitor
from tests.support.forms import TYPE
from tests.support.rows import each

BILLED = {one.route: one for one in routes() if one.billed}
# Each with what it would cost, as an upstream is asked.
DOORS = [
    (path, body)
    for method, path, body in test_busy_upstream.DOORS
    if method == "POST"
    and any(re.fullmatch(one.path, path.partition("?")[0]) for one in BILLED.values())
]
SETTINGS: dict[str, Any] = {**test_busy_upstream.SETTINGS, "console_listen": A_KNOWN_PORT}
RUN, MOST = "x-gateway-run", "x-gateway-run-max-usd"


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests) -> Iterator[Deployment]:
    with shared_deployment(postgres, **SETTINGS) as built:
        yield built


def gateway_pairs(h: Deployment, tenant: Tenant, trace: str) -> dict[str, str]:
    """What the detail of a call's row says of the gateway's decisions."""
    row = h.row(trace)
    assert (row["status"], row["cost_nano_usd"], row["error_code"]) == (
        "rejected",
        0,
        "quota_exceeded",
    )
    detail = tenant.client.get(f"/v1/logs/{row['id']}").json
    return {pair["k"]: pair["v"] for pair in detail["gateway"]}


def assert_refused(reply: Response, budget: dict[str, Any]) -> dict[str, str]:
    """It is the 402 of this budget; return what the header says."""
    assert reply.status == 402, reply
    assert reply.headers["x-should-retry"] == "false"
    found = facts(reply.headers[HEADER])
    assert found["id"] == budget["id"], found
    return found


# Before every other of this file: jobs that were taken ask the upstream when they like.
@each("path, body", DOORS)
def test_every_billed_endpoint_refuses_in_its_shape_and_asks_no_upstream(
    h: Deployment, path: str, body: Any
) -> None:
    tenant = h.tenant()
    made = make(h, tenant, limit_usd="0", name='the "small" one')
    headers = {"Content-Type": TYPE} if isinstance(body, bytes) else {}
    before = len(h.upstream.requests())
    reply = tenant.client.send("POST", path, body, headers=headers)
    found = assert_refused(reply, made)
    assert (found["remaining"], found["reset"]) == ("0", "never")
    assert nano_usd(found["needed"]) > 0
    assert len(h.upstream.requests()) == before
    error = reply.json["error"]
    assert '"the "small" one"' in error["message"]
    assert "never" in error["message"]
    if path.startswith("/v1beta"):
        assert error["status"] == "RESOURCE_EXHAUSTED"
    elif path == "/v1/messages":
        assert error["type"] == "billing_error"
    else:
        assert (error["type"], error["code"]) == ("insufficient_quota", "quota_exceeded")
    pairs = gateway_pairs(h, tenant, reply.trace)
    assert pairs["budget"] == made["id"]
    assert (pairs["budget_limit_usd"], pairs["budget_spent_usd"]) == ("0", "0")
    assert (pairs["budget_held_usd"], pairs["budget_needed_usd"]) == ("0", found["needed"])


@each("path, body", DOORS)
def test_every_billed_endpoint_meets_its_runs_ceiling_and_warns_on_what_it_serves(
    h: Deployment, path: str, body: Any
) -> None:
    tenant = h.tenant()
    made = make(h, tenant, limit_usd="0", action="warn")
    headers = {"Content-Type": TYPE} if isinstance(body, bytes) else {}
    low = {**headers, RUN: "r", MOST: "0.000000001"}
    assert_refused(tenant.client.send("POST", path, body, headers=low), {"id": "run"})
    served = tenant.client.send("POST", path, body, headers=headers)
    assert served.status in (200, 201, 202), served
    assert served.headers[WARNING] == made["id"]


def test_every_billed_route_is_walked() -> None:
    walked = {
        route
        for path, _ in DOORS
        for route, one in BILLED.items()
        if re.fullmatch(one.path, path.partition("?")[0])
    }
    assert walked == BILLED.keys()


def test_a_message_of_a_websocket_is_refused_like_a_post(h: Deployment) -> None:
    tenant = h.tenant()
    made = make(h, tenant, limit_usd="0")
    url = h.gateway.url.replace("http://", "ws://") + "/v1/responses"
    given = {"Authorization": f"Bearer {tenant.key}"}
    asked = {"type": "response.create", "model": "sim-model", "input": [HELLO]}
    with connect(url, additional_headers=given, open_timeout=PATIENCE_SECONDS, proxy=None) as one:
        one.send(json.dumps(asked))
        error = json.loads(one.recv(timeout=PATIENCE_SECONDS))
        assert (error["status"], error["error"]["code"]) == (402, "quota_exceeded")
        assert facts(error["headers"][HEADER])["id"] == made["id"]
        h.gw("budget", "delete", made["id"])
        one.send(json.dumps(asked))
        events = [json.loads(one.recv(timeout=PATIENCE_SECONDS))["type"]]
        while events[-1] not in ("response.completed", "error"):
            events.append(json.loads(one.recv(timeout=PATIENCE_SECONDS))["type"])
    assert events[-1] == "response.completed"


def test_the_playground_of_the_console_meets_them(h: Deployment) -> None:
    tenant = h.tenant()
    make(h, tenant, limit_usd="0", name="small")
    operator = visitor(h)
    operator.get(f"/playground?account={tenant.account}")
    fields = {"key": tenant.key_id, "model": "sim-model", "protocol": "messages", "prompt": "Hi"}
    reply = operator.post("/playground/call", fields)
    assert reply.status_code == 402
    assert '"small' in reply.text.replace("\\", "")


def test_official_libraries_see_the_refusal(h: Deployment) -> None:
    tenant = h.tenant()
    made = make(h, tenant, limit_usd="0.000001", name="tiny")
    with (
        OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as sdk,
        pytest.raises(openai.APIStatusError) as refused,
    ):
        sdk.chat.completions.create(
            model="sim-model", messages=[{"role": "user", "content": "Hello"}]
        )
    assert (refused.value.status_code, refused.value.code) == (402, "quota_exceeded")
    assert facts(refused.value.response.headers[HEADER])["id"] == made["id"]
    for part in ('"tiny"', "0.000001 USD", "max_tokens", "never"):
        assert part in refused.value.message
    with (
        anthropic.Anthropic(base_url=h.gateway.url, api_key=tenant.key) as sdk_of_messages,
        pytest.raises(anthropic.APIStatusError) as refused_message,
    ):
        sdk_of_messages.messages.create(
            model="sim-model", max_tokens=9, messages=[{"role": "user", "content": "Hello"}]
        )
    assert refused_message.value.status_code == 402
    assert len(h.rows(tenant)) == 2  # neither was sent again


@each(
    "scope, subject",
    [
        ("user", "ann"),
        ("model", "claude"),
        ("label", "team=search"),
        ("end_user", "ed@example.com"),
        ("run", "r1"),
        ("every_user", None),
        ("every_end_user", None),
        ("every_run", None),
    ],
)
def test_a_budget_refuses_what_its_scope_counts_and_nothing_else(
    h: Deployment, scope: str, subject: str | None
) -> None:
    tenant = h.tenant(user="ann")
    other = h.another(tenant, user="bob")
    named = {} if subject is None else {"subject": subject}
    made = make(h, tenant, scope=scope, limit_usd="0", period="month", **named)
    labels = {"x-gateway-labels": "team=search, feature=chat"}
    counted: dict[str, dict[str, Any]] = {
        "user": {},
        "every_user": {},
        "model": {"model": "claude"},
        "label": {"headers": labels},
        "end_user": {"user": "ed@example.com"},
        "every_end_user": {"headers": {"x-gateway-end-user": "anybody"}},
        "run": {"headers": {"x-gateway-run": "r1"}},
        "every_run": {"headers": {"x-gateway-run": "r2"}},
    }
    others: dict[str, dict[str, Any]] = {
        "model": {"model": "sim-model"},
        "label": {"headers": {"x-gateway-labels": "team=other, feature=search"}},
        "end_user": {"user": "eve@example.com"},
        "run": {"headers": {"x-gateway-run": "r1x"}},
    }
    refused = tenant.client.chat(**counted[scope])
    found = assert_refused(refused, made)
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", found["reset"])
    assert "example.com" not in refused.body.decode()
    if scope != "every_user":
        assert other.client.chat(**others.get(scope, {})).status == 200


def test_an_agents_budget_counts_its_calls_with_persona(h: Deployment) -> None:
    tenant = h.tenant()
    agent = h.agent(tenant, system_prompt="You are terse. " * 2000)
    made = make(h, tenant, scope="agent", subject=agent.agent_id, limit_usd="0.005")
    refused = agent.client.chat(max_tokens=10)
    needed = nano_usd(assert_refused(refused, made)["needed"])
    assert needed > 30_000 // 4 * 1000  # a USD a million tokens of persona
    assert tenant.client.chat(max_tokens=10).status == 200


def test_a_budget_is_held_for_the_whole_body_where_the_balance_is_for_the_conversation(
    h: Deployment,
) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "x" * 40_000}}
    tenant = h.tenant(nano_usd=5_000_000)
    made = make(h, tenant, limit_usd="0.005")
    assert tenant.client.chat(max_tokens=10).status == 200
    found = assert_refused(tenant.client.chat(max_tokens=10, tools=[tool]), made)
    assert nano_usd(found["needed"]) > 10_000_000
    h.gw("budget", "delete", made["id"])
    assert tenant.client.chat(max_tokens=10, tools=[tool]).status == 200


def test_replays_need_no_budget(h: Deployment) -> None:
    tenant = h.tenant()
    first = submissions.submit(tenant.client, "once")
    assert first.status == 200
    made = make(h, tenant, limit_usd="0")
    assert submissions.submit(tenant.client, "once").body == first.body
    assert_refused(submissions.submit(tenant.client, "twice"), made)
    h.gw("budget", "set", made["id"], "--limit-usd", "1")
    assert submissions.submit(tenant.client, "twice").status == 200  # the key is still free


def test_the_balance_refuses_before_the_cap_and_the_cap_before_budgets(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=1000)
    capped = h.another(tenant, spend_cap_nano_usd=0)
    make(h, tenant, limit_usd="0")
    for client in (tenant.client, capped.client):
        reply = client.chat()
        assert (reply.status, HEADER in reply.headers) == (402, False)
        assert "balance" in reply.error["message"]
    rich = h.tenant()
    capped = h.another(rich, spend_cap_nano_usd=0)
    make(h, rich, limit_usd="0")
    reply = capped.client.chat()
    assert (reply.status, HEADER in reply.headers) == (402, False)
    assert "spend cap" in reply.error["message"]
    assert HEADER in rich.client.chat().headers


def test_of_several_the_one_with_least_left_is_named_then_the_smaller_id(h: Deployment) -> None:
    tenant = h.tenant(user="ann")
    make(h, tenant, limit_usd="0.0002")
    tight = make(h, tenant, name="tight", limit_usd="0.0001", period="day")
    assert_refused(tenant.client.chat(), tight)
    equal = make(h, tenant, name="equal", scope="user", subject="ann", limit_usd="0.0001")
    least = min(tight, equal, key=lambda one: one["id"])
    assert_refused(tenant.client.chat(), least)


def test_the_specific_stands_in_place_of_the_general_of_its_period(h: Deployment) -> None:
    tenant = h.tenant(user="ann")
    general = make(h, tenant, name="each", scope="every_user", limit_usd="0", period="day")
    assert_refused(tenant.client.chat(), general)
    make(h, tenant, name="ann", scope="user", subject="ann", period="day")
    assert tenant.client.chat().status == 200
    other = make(h, tenant, name="week", scope="every_user", limit_usd="0", period="week")
    assert_refused(tenant.client.chat(), other)


def test_a_warning_budget_refuses_nothing_and_says_so_on_answers(h: Deployment) -> None:
    tenant = h.tenant()
    made = make(h, tenant, action="warn", limit_usd="0.001")
    sim = {"usage": {"input": 600, "output": 50}}  # 0.0011 USD
    assert WARNING not in tenant.client.chat(sim=sim).headers

    def is_warned(*, stream: bool) -> bool:
        answer = tenant.client.chat(sim=sim, stream=stream)
        return answer.status == 200 and answer.headers.get(WARNING) == made["id"]

    for stream in (False, True):
        until(partial(is_warned, stream=stream), what="the warning")
    h.upstream.fault("one", status=500)
    try:
        failed = tenant.client.chat()
    finally:
        h.upstream.heal("one")
    assert (failed.status, failed.headers[WARNING]) == (500, made["id"])
    shown = current(h, made["id"])
    assert shown["held"] == 0
    assert (shown["spent"] or 0) >= 3_300_000


def test_the_least_ceiling_that_anyone_names_holds_for_a_run(h: Deployment) -> None:
    tenant = h.tenant()
    other = h.another(tenant)
    assert tenant.client.chat(headers={RUN: "r"}).status == 200  # not counted: no ceiling yet
    assert tenant.client.chat(headers={RUN: "r", MOST: "0.5"}).status == 200
    assert other.client.chat(headers={RUN: "r", MOST: "0.0001"}).status == 402
    for headers in ({RUN: "r"}, {RUN: "r", MOST: "5"}):
        for one in (tenant, other):
            refused = one.client.chat(headers=headers)
            found = assert_refused(refused, {"id": "run"})
            assert found["reset"] == "never"
            assert '"r"' in refused.error["message"]
    assert tenant.client.chat(headers={RUN: "r2"}).status == 200
    assert tenant.client.chat().status == 200
    pairs = gateway_pairs(h, tenant, tenant.client.chat(headers={RUN: "r"}).trace)
    assert (pairs["budget"], pairs["budget_limit_usd"]) == ("run", "0.0001")


@each("value", ["0", "-1", "1e3", "$1", "", "1.0000000001", "1, 2"])
def test_a_ceiling_that_is_none_is_400_with_a_row(h: Deployment, value: str) -> None:
    tenant = h.tenant()
    for headers in ({RUN: "r", MOST: value}, {MOST: "1"}):
        reply = tenant.client.chat(b"{", headers=headers)  # before anything of the body
        assert (reply.status, reply.code) == (400, "invalid_request")
        assert MOST in reply.error["message"]
        assert h.row(reply.trace)["status"] == "rejected"
    assert tenant.client.get("/v1/models", **{MOST: value}).status == 200
