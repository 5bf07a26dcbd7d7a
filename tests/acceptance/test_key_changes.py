"""Keys and accounts that are changed beside a running gateway: the very next request knows.

Reference 1.1: a running gateway sees the change at once. Every call here is made right after the
command has returned, without waiting for anything.
"""

from typing import Any

import pytest

from gw.keys.principal import MESSAGES, RefusalReason
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant

pytestmark = pytest.mark.long


def assert_refused(client: Client, reason: RefusalReason) -> None:
    reply = client.chat()
    assert reply.refusal == (401, "authentication_error", "invalid_api_key")
    assert reply.error["message"] == MESSAGES[reason]


def assert_works(client: Client) -> None:
    assert client.chat().status == 200


def test_key_is_disabled_enabled_and_revoked_for_good(h: Deployment, tenant: Tenant) -> None:
    other = h.another(tenant)
    assert_works(tenant.client)
    h.gw("key", "disable", tenant.key_id)
    assert_refused(tenant.client, "disabled")
    h.gw("key", "enable", tenant.key_id)
    assert_works(tenant.client)
    h.gw("key", "revoke", tenant.key_id)
    assert_refused(tenant.client, "revoked")
    with pytest.raises(AssertionError, match="revoked"):
        h.gw("key", "enable", tenant.key_id)
    assert_refused(tenant.client, "revoked")
    assert_works(other.client)


LIMIT_HEADERS = {
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-concurrency",
    "x-ratelimit-remaining-concurrency",
}


def limits_in(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in LIMIT_HEADERS}


def test_requests_per_minute_are_limited_and_set_free_at_once(
    h: Deployment, tenant: Tenant
) -> None:
    other = h.another(tenant)
    unlimited_ = tenant.client.chat()
    assert limits_in(unlimited_.headers) == {}
    h.gw("account", "limits", tenant.account, "--rpm", "3")
    remaining = []
    for client, send in ((tenant.client, "chat"), (other.client, "models"), (other.client, "chat")):
        reply = client.chat() if send == "chat" else client.get("/v1/models")
        assert reply.status == 200
        assert reply.headers["x-ratelimit-limit-requests"] == "3"
        assert 0 < int(reply.headers["x-ratelimit-reset-requests"]) <= 60
        remaining.append(reply.headers["x-ratelimit-remaining-requests"])
    assert remaining == ["2", "1", "0"]
    refused = tenant.client.chat()
    assert refused.refusal == (429, "rate_limit_error", "rate_limit_exceeded")
    assert "requests per minute" in refused.error["message"]
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert limits_in(refused.headers).keys() == {
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    }
    row = h.row(refused.trace)
    assert (row["status"], row["error_code"]) == ("rejected", "rate_limit_exceeded")
    # The limit comes after the key and before the balance and the body.
    assert tenant.client.chat(b"no JSON").status == 429
    # Free endpoints with rules of their own are exempt, and the catalog needs no key.
    for path in ("/v1/key/balance", "/v1/dashboard/billing/usage", "/api/v1/models/public"):
        assert tenant.client.get(path).status == 200
    h.gw("account", "limits", tenant.account, "--rpm", "none")
    assert limits_in(tenant.client.chat().headers) == {}
