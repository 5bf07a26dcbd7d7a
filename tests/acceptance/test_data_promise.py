"""A promise of retention and region at every door that sends a call's data to an upstream."""

import json
import re
from typing import Any

import anthropic
import openai
import pytest
from openai import OpenAI
from websockets.sync.client import connect

from gw.app import routes
from loadtests.rig.client import HELLO, Client
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from tests.acceptance import test_budget_refusals, test_busy_upstream
from tests.support.console import visitor
from tests.support.forms import TYPE
from tests.support.rows import each

HEADER = "x-gateway-data"
PROMISED = {"retention_days": 7, "region": "us"}
SETTINGS: dict[str, Any] = {
    **test_busy_upstream.SETTINGS,
    "channels": [{**one, "data": PROMISED} for one in test_busy_upstream.SETTINGS["channels"]],
    "console_listen": A_KNOWN_PORT,
}
DOORS = [(path, body) for method, path, body in test_busy_upstream.DOORS if method == "POST"]
# They are answered here where no upstream counts.
COUNTS = ("count_tokens", ":countTokens", "input_tokens")
SERVED = (200, 201, 202)
# What is free has no row where it is refused before its hold.
SOLD = {path for path, _ in test_budget_refusals.DOORS}


def sent(tenant: Tenant, path: str, body: Any, **headers: str) -> Response:
    kind = {"Content-Type": TYPE} if isinstance(body, bytes) else {}
    return tenant.client.send("POST", path, body, headers={**kind, **headers})


def assert_unkept(reply: Response, path: str, demand: str) -> None:
    """It is the 503 that names the demand, in the endpoint's shape."""
    assert reply.status == 503, reply
    assert reply.headers["x-should-retry"] == "false"
    error = reply.json["error"]
    assert demand in error["message"], error
    if path.startswith("/v1beta"):
        assert error["status"] == "UNAVAILABLE"
    elif path == "/v1/messages":
        assert error["type"] == "overloaded_error"
    else:
        assert (error["type"], error["code"]) == ("server_error", "no_channel_available")


def pairs(h: Deployment, tenant: Tenant, trace: str) -> dict[str, str]:
    """What the detail of a call's row says of the gateway's decisions."""
    detail = tenant.client.get(f"/v1/logs/{h.row(trace)['id']}").json
    return {pair["k"]: pair["v"] for pair in detail["gateway"]}


# Before every other of this file: jobs that were taken ask the upstream when they like.
@each("path, body", DOORS)
def test_every_door_refuses_a_demand_that_no_channel_keeps(
    h: Deployment, path: str, body: Any
) -> None:
    tenant = h.tenant()
    before = len(h.upstream.requests())
    bad = sent(tenant, path, body, **{HEADER: "region=eu; retention=never"})
    assert bad.status == 400, bad
    assert HEADER in bad.json["error"]["message"]
    demand = "region=eu; retention=0"
    reply = sent(tenant, path, body, **{HEADER: demand})
    if path.endswith(COUNTS):
        assert (reply.status, reply.headers["x-token-count"]) == (200, "estimate"), reply
    else:
        assert_unkept(reply, path, demand)
    if path in SOLD:
        row = h.row(reply.trace)
        assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
        assert row["error_code"] == "no_channel_available"
        found = pairs(h, tenant, reply.trace)
        assert found["data_demanded"] == demand
        assert "hold_usd" not in found
    assert len(h.upstream.requests()) == before
    assert h.held_nano_usd(tenant) == 0


@each("path, body", DOORS)
def test_every_door_serves_a_demand_that_a_channel_keeps(
    h: Deployment, path: str, body: Any
) -> None:
    tenant = h.tenant()
    reply = sent(tenant, path, body, **{HEADER: "region=us; retention=30"})
    assert reply.status in SERVED, reply
    if not path.endswith(COUNTS):
        found = pairs(h, tenant, reply.trace)
        assert found["data_demanded"] == "region=us; retention=30"
        assert found["data_promised"] == "region=us; retention=7"


def test_every_billed_route_is_walked() -> None:
    walked = {
        one.route
        for path, _ in DOORS
        for one in routes()
        if one.billed and re.fullmatch(one.path, path.partition("?")[0])
    }
    assert walked == {one.route for one in routes() if one.billed}


def test_account_key_and_header_demand_together_at_once(h: Deployment) -> None:
    tenant = h.tenant()
    assert tenant.client.chat().status == 200
    shown = h.gw("account", "set", tenant.account, "--data", "region=us")
    assert shown["data_demand"] == "region=us"
    assert tenant.client.chat().status == 200
    h.gw("key", "set", tenant.key_id, "--data", "retention=7")
    reply = tenant.client.chat()
    assert reply.status == 200
    assert pairs(h, tenant, reply.trace)["data_demanded"] == "region=us; retention=7"
    # A header narrows, and lifts nothing.
    chat = "/v1/chat/completions"
    for header, demand in (
        ("retention=6", "region=us; retention=6"),
        ("region=eu", "region=eu; region=us; retention=7"),
    ):
        assert_unkept(tenant.client.chat(headers={HEADER: header}), chat, demand)
    assert tenant.client.chat(headers={HEADER: "retention=30"}).status == 200
    h.gw("key", "set", tenant.key_id, "--data", "retention=0")
    assert_unkept(tenant.client.chat(), chat, "region=us; retention=0")
    h.gw("key", "set", tenant.key_id, "--data", "none")
    h.gw("account", "set", tenant.account, "--data", "region=eu")
    assert_unkept(h.agent(tenant).client.chat(), chat, "region=eu")
    assert_unkept(h.another(tenant).client.chat(stream=True), chat, "region=eu")
    trail = h.gw("admin", "audit", "--object", tenant.account)["changes"]
    assert {"data_demand": "region=eu"} in [one["details"] for one in trail]
    h.gw("account", "set", tenant.account, "--data", "none")
    assert tenant.client.chat().status == 200
    h.verify()


def test_a_message_of_a_websocket_is_refused_like_a_post(h: Deployment) -> None:
    tenant = h.tenant()
    url = h.gateway.url.replace("http://", "ws://") + "/v1/responses"
    asked = {"type": "response.create", "model": "sim-model", "input": [HELLO]}
    for demand, expected in (("region=eu", "error"), ("region=us", "response.completed")):
        given = {"Authorization": f"Bearer {tenant.key}", HEADER: demand}
        with connect(
            url, additional_headers=given, open_timeout=PATIENCE_SECONDS, proxy=None
        ) as one:
            one.send(json.dumps(asked))
            events = [json.loads(one.recv(timeout=PATIENCE_SECONDS))]
            while events[-1]["type"] not in ("response.completed", "error"):
                events.append(json.loads(one.recv(timeout=PATIENCE_SECONDS)))
        assert events[-1]["type"] == expected, events
        if expected == "error":
            assert (events[-1]["status"], events[-1]["error"]["code"]) == (
                503,
                "no_channel_available",
            )
            assert demand in events[-1]["error"]["message"]


def test_official_libraries_see_the_refusal_and_send_nothing_again(h: Deployment) -> None:
    tenant = h.tenant()
    demand = {HEADER: "region=eu"}
    with (
        OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, default_headers=demand) as sdk,
        pytest.raises(openai.APIStatusError) as refused,
    ):
        sdk.chat.completions.create(
            model="sim-model", messages=[{"role": "user", "content": "Hello"}]
        )
    assert (refused.value.status_code, refused.value.code) == (503, "no_channel_available")
    assert "region=eu" in refused.value.message
    with (
        anthropic.Anthropic(
            base_url=h.gateway.url, api_key=tenant.key, default_headers=demand
        ) as sdk_of_messages,
        pytest.raises(anthropic.APIStatusError) as refused_message,
    ):
        sdk_of_messages.messages.create(
            model="sim-model", max_tokens=9, messages=[{"role": "user", "content": "Hello"}]
        )
    assert refused_message.value.status_code == 503
    assert len(h.rows(tenant)) == 2


def test_promises_are_shown_in_catalog_matrix_admin_api_and_console(h: Deployment) -> None:
    tenant = h.tenant()
    assert tenant.client.get("/v1/models/sim-model").json["data"] == [PROMISED]
    catalog = Client(h.gateway.url, None).get("/api/v1/models/public").json["models"]
    assert next(one for one in catalog if one["id"] == "claude")["data"] == [PROMISED]
    rows = h.gw("matrix")["rows"]
    assert {tuple(row["data"]) for row in rows} == {("region=us; retention=7",)}
    token = h.gw("admin", "token", "create", "--name", "t", "--scope", "read")["token"]
    admin = Client(h.gateway.admin_url, token)
    (bound,) = admin.get("/admin/v1/models/sim-model").json["channels"]
    assert bound["data"] == "region=us; retention=7"
    assert admin.get(f"/admin/v1/accounts/{tenant.account}").json["data_demand"] is None
    operator = visitor(h)
    for page in ("/models", "/channels"):
        assert operator.get(page).status_code == 200
        assert "region=us; retention=7" in operator.text
    page = f"/accounts/{tenant.account}/keys/{tenant.key_id}"
    operator.get(page)
    fields = {"act": "set", "name": "n", "which": "all", "data": "region=eu"}
    assert operator.post(page, fields).status_code == 303

    def is_refused() -> bool:
        return bool(tenant.client.chat().status == 503)

    until(is_refused, what="the demand of the form")
    operator.get(page)  # a form is sent once
    fields["data"] = "Europe"
    assert operator.post(page, fields).status_code == 400
