"""Who may read which rows of the call log, and how often (spec: Key visibility matrix; Limits)."""

from __future__ import annotations

from typing import Any

from tests.support.client import Reply
from tests.support.house import House
from tests.support.rows import each
from tests.support.tenants import Tenant
from tests.support.waiting import within_one_window

LOGS, SUMMARY = "/v1/logs", "/v1/logs/summary"
DENIED = (403, "permission_error", "permission_denied")


def rate(reply: Reply) -> tuple[str, str]:
    return reply.headers["x-ratelimit-limit"], reply.headers["x-ratelimit-remaining"]


def seen(tenant: Tenant, query: str) -> tuple[list[str], int]:
    """The calls that a list shows, in their order, and how many a summary counts."""
    page, summary = (tenant.client.get(f"{path}?{query}") for path in (LOGS, SUMMARY))
    assert (page.status, summary.status) == (200, 200), (page, summary)
    scope = "account" if "account" in query else "key"
    assert (page.json["scope"], summary.json["scope"]) == (scope, scope)
    return [row["request_id"] for row in page.json["data"]], summary.json["total"]["requests"]


@each("kind", ["console", "employee", "compute", "agent"])
@each("toggle", [False, True])
def test_the_matrix_of_kinds_and_scopes(h: House, kind: str, toggle: bool) -> None:
    h.upstream.reset()
    more: dict[str, Any] = {"agent_id": "agent_x"} if kind == "agent" else {}
    first = h.tenant()
    tenant = h.another(first, kind=kind, account_logs=toggle, **more)
    theirs = first.client.chat().trace
    own = [] if kind == "agent" else [tenant.client.chat().trace]
    for path in (LOGS, SUMMARY):
        key_scope = tenant.client.get(path)
        account_scope = tenant.client.get(f"{path}?scope=account")
        assert {rate(key_scope)[0], rate(account_scope)[0]} == {"60"}
        if kind == "agent":
            assert key_scope.refusal == DENIED
        if kind == "console" and toggle:
            assert account_scope.status == 200
        else:
            assert account_scope.refusal == DENIED
    if kind != "agent":
        assert seen(tenant, "") == (own, 1)
    if kind == "console" and toggle:
        assert seen(tenant, "scope=account") == ([*own, theirs], 2)
        assert seen(tenant, f"scope=account&key_id={first.key_id}") == ([theirs], 1)


def test_another_accounts_rows_are_never_seen(h: House) -> None:
    owner, stranger = h.tenant(account_logs=True), h.tenant(account_logs=True)
    trace = owner.client.chat().trace
    stranger.client.chat()
    for query in (
        f"ref={trace}",
        f"scope=account&ref={trace}",
        f"scope=account&key_id={owner.key_id}",
        f"scope=account&key_id={owner.key_id}&ref={trace}&period=all",
    ):
        assert stranger.client.get(f"{LOGS}?{query}").json["data"] == []
    for query in ("", "scope=account"):
        assert trace not in seen(stranger, query)[0]
    summary = stranger.client.get(f"{SUMMARY}?scope=account&key_id={owner.key_id}").json
    assert summary["total"]["requests"] == 0


def test_logs_work_at_zero_and_outside_the_limits_of_the_account(h: House) -> None:
    tenant = h.tenant(nano_usd=0, rpm=1)
    assert tenant.client.chat().status == 402
    for _ in range(3):
        for path in (LOGS, SUMMARY):
            reply = tenant.client.get(path)
            assert reply.status == 200
            assert "x-ratelimit-limit-requests" not in reply.headers
    # The one call of this minute was the refused one; logs have neither used nor freed a place.
    assert tenant.client.chat().status == 429


def test_sixty_a_minute_over_all_three_endpoints_and_then_429(h: House) -> None:
    paths = [LOGS, SUMMARY, f"{LOGS}/1", f"{LOGS}?status=wrong"]

    def ask() -> tuple[Tenant, list[Reply]]:
        """A tenant, and what it is answered: sixty times, and once more for each path."""
        tenant = h.tenant()
        return tenant, [tenant.client.get(path) for path in paths * 16]

    tenant, replies = within_one_window(ask)
    for number, reply in enumerate(replies[:60]):
        assert reply.status in (200, 400, 404)
        assert rate(reply) == ("60", str(59 - number))
        assert 0 < int(reply.headers["x-ratelimit-reset"]) <= 60
    for reply in replies[60:]:
        assert reply.refusal == (429, "rate_limit_error", "logs_rate_limited")
        assert rate(reply) == ("60", "0")
        wait = int(reply.headers["retry-after"])
        assert 0 < wait <= 60
        assert reply.headers["x-ratelimit-reset"] == str(wait)
        assert f"{wait} s" in reply.error["message"]
    assert rate(h.another(tenant).client.get(LOGS)) == ("60", "59")
    assert tenant.client.chat().status == 200  # apart from what calls may do
