"""Where a key may stand, and what no key is told.

Reference 1.1. Keys that change under a running gateway are in
`test_key_changes.py`.
"""

from collections.abc import Mapping
from typing import Any

from gw.api.checks import MISSING_KEY, QUERY_KEY
from gw.keys.principal import MESSAGES
from loadtests.rig.client import CHAT, Client, chat_body
from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

UNKNOWN = "sk-platform-" + "0" * 64
INVALID = (401, "authentication_error", "invalid_api_key")


def ask(
    h: Deployment, path: str = CHAT, *, query: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """One call to an endpoint with nothing but these headers and this query."""
    body = chat_body() if path == CHAT else None
    method = "POST" if path == CHAT else "GET"
    return Client(h.gateway.url, None).send(method, path + query, body, headers=headers)


def assert_refused(reply: Response, message: str) -> None:
    assert reply.refusal == INVALID
    assert reply.error["message"] == message
    assert reply.headers["x-should-retry"] == "false"
    assert len(reply.trace) == 32


PLACES = ("x-api-key", "x-alt-api-key", "x-goog-api-key", "query", "bearer")


def placed(keys: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `ask` with each key in its place."""
    headers = {place: key for place, key in keys.items() if place not in ("query", "bearer")}
    if "bearer" in keys:
        headers["Authorization"] = f"Bearer {keys['bearer']}"
    return {"headers": headers, "query": f"?key={keys['query']}" if "query" in keys else ""}


@each("path", [CHAT, "/v1/key/balance", "/v1/dashboard/billing/usage"])
@each("place", PLACES)
def test_key_is_found_in_every_place(h: Deployment, tenant: Tenant, place: str, path: str) -> None:
    assert ask(h, path, **placed({place: tenant.key})).status == 200


@each("headers", [{}, {"x-api-key": ""}, {"Authorization": ""}, {"Authorization": "Bearer "}])
def test_error_of_a_missing_key_says_where_to_send_one(
    h: Deployment, headers: dict[str, str]
) -> None:
    assert_refused(ask(h, headers=headers), MISSING_KEY)


def test_other_schemes_are_no_key(h: Deployment, tenant: Tenant) -> None:
    assert_refused(ask(h, headers={"Authorization": f"Basic {tenant.key}"}), MISSING_KEY)
    assert ask(h, headers={"Authorization": f"bearer {tenant.key}"}).status == 200


def test_models_take_neither_the_query_nor_the_alternative_header(
    h: Deployment, tenant: Tenant
) -> None:
    path = "/v1/models"
    assert_refused(ask(h, path, **placed({"query": tenant.key})), QUERY_KEY)
    assert_refused(ask(h, path, **placed({"x-alt-api-key": tenant.key})), MISSING_KEY)
    for place in ("x-api-key", "bearer"):
        assert ask(h, path, **placed({place: tenant.key})).status == 200
        # A query key beside a good header is ignored, whatever it is.
        assert ask(h, path, **placed({"query": UNKNOWN, place: tenant.key})).status == 200
    assert_refused(
        ask(h, path, **placed({"x-api-key": UNKNOWN, "bearer": tenant.key})), MESSAGES["unknown"]
    )
