"""For whom calls are, on real processes: what costs money reads it, and passes it on to nobody."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from channels.conversation import label_of
from gw.calls.attribution import HEADERS
from loadtests.rig.client import HELLO, Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.acceptance import films, pictures, sounds
from tests.acceptance.every_family import CHAT, MEDIA
from tests.acceptance.test_responses_socket import open_socket, turn
from tests.support.rows import each

SETTINGS: dict[str, Any] = {
    "channels": [channel("one", protocols=[*CHAT, *MEDIA])],
    "models": [
        model("sim-model", "one"),
        pictures.picture("picture", "one"),
        *sounds.ON_ONE,
    ],
    "cors_origins": ["https://page.example"],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3},
}
SAID = {
    "x-gateway-end-user": "Zoë".encode().decode("latin-1"),
    "x-gateway-run": "r/1",
    "x-gateway-labels": "team=search, feature=chat",
}
ROW = {"end_user": "Zoë", "run": "r/1", "labels": {"team": "search", "feature": "chat"}}
MESSAGES = {"model": "sim-model", "messages": [HELLO], "max_tokens": 9}
NATIVE = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\npicture\r\n'
    b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na boat\r\n'
    b'--b\r\nContent-Disposition: form-data; name="user"\r\n\r\nnobody\r\n'
    b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\n\x89PNG\r\n--b--\r\n"
)
UUID = "0198b3a1-2c3d-4e5f-8a9b-0c1d2e3f4a5b"
AGENT_USER = f"user_{'ab' * 32}_account_{UUID}_session_11111111-2222-3333-4444-555555555555"

Call = Callable[..., Response]
CALLS: dict[str, Call] = {
    "chat": lambda client, headers, **more: client.chat(headers=headers, **more),
    "messages": lambda client, headers, **more: client.send(
        "POST", "/v1/messages", {**MESSAGES, **more}, headers=headers
    ),
    "responses": lambda client, headers, **more: client.send(
        "POST", "/v1/responses", {"model": "sim-model", "input": "Hello", **more}, headers=headers
    ),
    "native": lambda client, headers, **more: client.send(
        "POST", "/v1beta/models/sim-model:generateContent", NATIVE, headers=headers
    ),
    "images": lambda client, headers, **more: pictures.generate(client, headers=headers, **more),
    "edits": lambda client, headers, **more: client.send(
        "POST",
        "/v1/images/edits",
        FORM,
        headers={**headers, "Content-Type": "multipart/form-data; boundary=b"},
    ),
    "speech": sounds.speak,
    "voice": sounds.clone,
    "script": sounds.extract,
    "music": sounds.compose,
    "avatar": sounds.register,
    "film": films.submit,
}
# Where a body of these has no member that names an end user.
NAMELESS = ("native", "edits")


def logs(client: Client, query: str = "") -> list[dict[str, Any]]:
    reply = client.get(f"/v1/logs?{query}")
    assert reply.status == 200, reply
    rows: list[dict[str, Any]] = reply.json["data"]
    return rows


def stored_of(h: Deployment, reply: Response) -> dict[str, Any]:
    """What the row of a call has; a task has one when it has ended."""
    found: dict[str, Any] = h.row(reply.trace)["attribution"] or {}
    return found


def said_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("end_user", "session", "run", "labels") if name in row}


@each("kind", list(CALLS))
def test_every_call_that_costs_money_has_it_in_its_row(h: Deployment, kind: str) -> None:
    client = h.tenant(nano_usd=10 * NANO_PER_USD).client
    reply = CALLS[kind](client, SAID)
    assert reply.status in (200, 201, 202), reply
    sent = json.dumps(h.upstream.last_request()["headers"]).lower()
    assert "x-gateway" not in sent
    assert stored_of(h, reply) == ROW
    if kind not in NAMELESS:
        named = {"metadata": {"user_id": "ann"}} if kind == "messages" else {"user": "ann"}
        of_body = CALLS[kind](client, {}, **named)
        assert stored_of(h, of_body).get("end_user") == "ann", kind
    # Refused as the first thing of its body, in its own row.
    refused = CALLS[kind](client, {"x-gateway-labels": "team"})
    assert refused.status == 400
    assert "x-gateway-labels" in refused.body.decode()
    row = h.row(refused.trace)
    assert (row["status"], row["attribution"]) == ("rejected", None)


def test_refused_calls_have_it_as_far_as_they_came(h: Deployment, tenant: Tenant) -> None:
    client = h.another(tenant).client
    broken = client.chat(b'{"model": "sim-model", "user": "ann", "messages": 7}', headers=SAID)
    unknown = client.chat(model="nothing", user="ann")
    dear = client.chat(max_tokens=10**9, prompt_cache_key="s1")
    assert (broken.status, unknown.status, dear.status) == (400, 400, 402)
    assert stored_of(h, broken) == {**ROW, "session": label_of("ann")}
    assert stored_of(h, unknown) == {"end_user": "ann", "session": label_of("ann")}
    assert stored_of(h, dear) == {"session": label_of("s1")}


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as client:
        yield client


def test_official_libraries_and_coding_agents_name_their_users(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    message: Any = [{"role": "user", "content": "Hello"}]
    made = sdk.chat.completions.with_raw_response.create(
        model="sim-model", messages=message, user="ann", safety_identifier="bob"
    )
    (row,) = logs(tenant.client, f"ref={made.headers['x-gateway-trace']}")
    assert row["end_user"] == "bob"
    agent = CALLS["messages"](tenant.client, {}, metadata={"user_id": AGENT_USER})
    assert stored_of(h, agent)["end_user"] == UUID
    detail = tenant.client.get(f"/v1/logs/{row['id']}").json
    assert {"k": "end_user", "v": "bob"} in detail["gateway"]
    labelled = CALLS["chat"](tenant.client, SAID)
    row = h.row(labelled.trace)
    pairs = {
        one["k"]: one["v"] for one in tenant.client.get(f"/v1/logs/{row['id']}").json["gateway"]
    }
    assert (pairs["run"], pairs["label.team"], pairs["label.feature"]) == ("r/1", "search", "chat")
    page = tenant.client.get("/v1/logs?end_user=bob&label.team=search")
    assert page.json["data"] == []
    summed = tenant.client.get("/v1/logs/summary?by=end_user").json
    assert {one["group"] for one in summed["by_group"]} == {"bob", UUID, "Zoë"}
    assert tenant.client.get("/v1/logs/summary?by=user").status == 403
    assert tenant.client.get("/v1/logs/summary?end_user=bob").status == 400


def test_a_task_under_way_says_it_too(h: Deployment, tenant: Tenant) -> None:
    reply = films.submit(tenant.client, SAID)
    page = tenant.client.get("/v1/logs?include=in_flight").json
    for job in page["in_flight"]:
        assert said_of(job) == ROW
    assert stored_of(h, reply) == ROW


def test_headers_of_a_handshake_hold_for_each_of_its_calls(h: Deployment, tenant: Tenant) -> None:
    say = {
        "type": "response.create",
        "model": "sim-model",
        "input": [{"role": "user", "content": "Hi"}],
    }
    with open_socket(h, tenant.key, **{**SAID, "x-gateway-end-user": "ann"}) as socket:
        for _ in range(2):
            turn(socket, say)
    h.settled(tenant)
    assert [said_of(row) for row in logs(tenant.client)] == [{**ROW, "end_user": "ann"}] * 2


def test_an_agents_call_says_it(h: Deployment, tenant: Tenant) -> None:
    agent = h.agent(tenant, model="sim-model")
    reply = agent.client.chat(headers={"x-gateway-run": "r/9"}, user="ann")
    assert reply.status == 200
    assert stored_of(h, reply) == {
        "end_user": "ann",
        "session": label_of("ann"),
        "run": "r/9",
    }


def test_a_page_may_send_these_headers_and_read_those_of_budgets(h: Deployment) -> None:
    page = {"Origin": "https://page.example"}
    asked = {
        **page,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ",".join(HEADERS),
    }
    allowed = h.client.send("OPTIONS", "/v1/chat/completions", headers=asked).headers
    assert set(HEADERS) <= set(allowed["access-control-allow-headers"].split(","))
    exposed = h.client.get("/v1/models", **page).headers["access-control-expose-headers"].lower()
    assert {"x-gateway-budget", "x-gateway-budget-warning"} <= set(exposed.split(", "))
