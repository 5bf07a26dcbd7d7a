"""Pages of other origins may call the gateway where `cors_origins` lists them."""

from typing import Any

from gw.http.cors import EXPOSED, Cors
from gw.http.tornado.headers import RequestHeaders
from gw.idempotency.guard import REPLAYED
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

PAGE, OTHER = "https://app.example", "https://evil.example"
SETTINGS: dict[str, Any] = {
    "cors_origins": [PAGE, "http://localhost:5173"],
    "channels": [channel("one")],
    "models": [model("sim-model", "one")],
}
ENDPOINTS = {
    "/v1/chat/completions": "POST",
    "/v1/messages": "POST",
    "/v1/responses": "POST",
    "/v1beta/models/sim-model:streamGenerateContent": "POST",
    "/v1/models": "GET",
    "/v1/models/sim-model": "GET",
    "/api/v1/models/public": "GET",
    "/v1/key/balance": "GET",
    "/v1/budgets": "GET",
    "/v1/images/generations": "POST",
    "/v1/videos/generations/some": "GET",
    "/v1/videos/avatars/some": "DELETE",
    "/v1/logs": "GET",
    "/api/v1/ext/wiki/search": "GET",
    "/mcp": "POST",
}
WANTED = "authorization,content-type,x-stainless-arch"


def preflight(client: Client, path: str, origin: str = PAGE, method: str = "POST") -> Response:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": WANTED,
    }
    return client.send("OPTIONS", path, headers=headers)


def varies(reply: Response) -> set[str]:
    return set(reply.headers.get("vary", "").split(", "))


@each("path, method", ENDPOINTS.items())
def test_preflight_of_a_listed_page_is_allowed_at_every_endpoint(
    h: Deployment, tenant: Tenant, path: str, method: str
) -> None:
    reply = preflight(Client(tenant.client.url, key=""), path, method=method)  # which has no key
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert method in reply.headers["access-control-allow-methods"].split(", ")
    assert reply.headers["access-control-allow-headers"] == WANTED
    assert int(reply.headers["access-control-max-age"]) > 0
    assert "Origin" in varies(reply)
    assert "access-control-allow-credentials" not in reply.headers
    assert "x-gateway-trace" in reply.headers


def test_other_origins_methods_and_paths_are_as_ever(h: Deployment, tenant: Tenant) -> None:
    chat = "/v1/chat/completions"
    stranger = preflight(tenant.client, chat, origin=OTHER)
    plain = tenant.client.send("OPTIONS", chat, headers={"Origin": PAGE})
    for reply, status in ((stranger, 405), (plain, 405), (preflight(tenant.client, "/v9"), 404)):
        assert reply.status == status
        assert "access-control-allow-methods" not in reply.headers
        assert "Origin" in varies(reply)
    assert "access-control-allow-origin" not in stranger.headers


def test_every_response_names_the_page_and_what_it_may_read(h: Deployment, tenant: Tenant) -> None:
    page = {"Origin": PAGE}
    nobody = Client(tenant.client.url, key="sk-platform-" + "0" * 64)
    replies = {
        200: tenant.client.chat(headers=page),
        400: tenant.client.chat(b"{", headers=page),
        401: nobody.chat(headers=page),
        404: tenant.client.send("GET", "/v9", headers=page),
        405: tenant.client.send("GET", "/v1/chat/completions", headers=page),
    }
    for status, reply in replies.items():
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == PAGE
        exposed = reply.headers["access-control-expose-headers"].lower().split(", ")
        assert {"x-gateway-trace", "retry-after", "x-should-retry"} <= set(exposed)
        assert "Origin" in varies(reply)
    stream = tenant.client.chat(stream=True, headers=page)
    assert stream.headers["access-control-allow-origin"] == PAGE
    assert stream.events[-1] == b"[DONE]"
    for other in ({}, {"Origin": OTHER}, {"Origin": "null"}):
        reply = tenant.client.chat(headers=other)
        assert reply.status == 200
        assert "access-control-allow-origin" not in reply.headers
        assert "Origin" in varies(reply)


def test_body_that_is_refused_by_its_head_names_the_page_too(h: Deployment, tenant: Tenant) -> None:
    """Also while the key is looked up: the connection goes on once that is over."""
    page = {"Origin": PAGE, "Expect": "100-continue", "Content-Length": "999999999999"}
    nobody = Client(tenant.client.url, key="sk-platform-" + "1" * 64)
    for client, status in ((tenant.client, 413), (nobody, 401)):
        reply = client.send("POST", "/v1/chat/completions", headers=page)
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == PAGE


def test_any_origin_may_be_allowed_and_every_response_keeps_what_it_varies_by() -> None:
    cors = Cors(["*"])
    found = cors.headers(RequestHeaders({"Origin": ["https://any.example"]}), {"Vary": "Accept"})
    assert found["Access-Control-Allow-Origin"] == "*"
    assert found["Vary"] == "Accept, Origin"
    assert found["Access-Control-Expose-Headers"] == ", ".join(EXPOSED)
    assert REPLAYED in EXPOSED
    assert "Access-Control-Allow-Origin" not in cors.headers(RequestHeaders({}), {})
