"""`GET /v1/logs` over HTTP: rows of real calls, every parameter, cursors while calls go on.

Reference 6.3, 6.2.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.support.rows import each

LOGS = "/v1/logs"
ROW = [
    *("object", "id", "created_at", "submitted_at", "key_id", "key_name", "key_prefix", "model"),
    *("status", "error_code", "error_message", "input_tokens", "output_tokens", "cached_tokens"),
    *("unit_count", "unit_type", "cost", "latency_ms", "request_id", "task_id", "result_urls"),
    *("result_expires_at", "attempts_count", "attempts"),
]
PAGE = ["object", "currency", "scope", "period_from", "period_to", "data", "has_more"]


def logs(tenant: Tenant, query: str = "") -> dict[str, Any]:
    reply = tenant.client.get(f"{LOGS}?{query}")
    assert reply.status == 200, reply
    page: dict[str, Any] = reply.json
    return page


def traces(tenant: Tenant, query: str = "") -> list[str]:
    return [row["request_id"] for row in logs(tenant, query)["data"]]


def test_a_call_is_a_row_with_every_field_as_soon_as_it_has_ended(
    h: Deployment, tenant: Tenant
) -> None:
    reply = tenant.client.chat(sim={"usage": {"input": 1000, "output": 20, "cached": 400}})
    page = logs(tenant)
    assert list(page) == [*PAGE, "next_cursor"]
    assert (page["object"], page["currency"], page["scope"]) == ("list", "points", "key")
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    (row,) = page["data"]
    assert list(row) == ROW
    key = h.query("SELECT name, prefix FROM keys WHERE id = %s", tenant.key_id)[0]
    stored = h.row(reply.trace)
    assert row == {
        "object": "log",
        "id": stored["id"],
        "created_at": stored["created_at"].astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "submitted_at": stored["submitted_at"].astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "key_id": tenant.key_id,
        "key_name": key["name"],
        "key_prefix": key["prefix"],
        "model": "sim-model",
        "status": "success",
        "error_code": None,
        "error_message": None,
        "input_tokens": 1000,
        "output_tokens": 20,
        "cached_tokens": 400,
        "unit_count": None,
        "unit_type": None,
        "cost": "0.84",  # 600 × 1 + 400 × 0.1 + 20 × 10 USD per million, a thousand credits each
        "latency_ms": stored["latency_ms"],
        "request_id": reply.trace,
        "task_id": None,
        "result_urls": [],
        "result_expires_at": None,
        "attempts_count": 0,
        "attempts": [],
    }
    assert page["period_from"] < row["submitted_at"] <= row["created_at"] < page["period_to"]


def test_failed_attempts_are_folded_into_their_row(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("one", status=500, message="the machine room is on fire")
    tenant.client.chat()
    (row,) = logs(tenant)["data"]
    assert (row["status"], row["attempts_count"]) == ("success", 1)
    (attempt,) = row["attempts"]
    assert list(attempt) == ["seq", "created_at", "latency_ms", "error_code", "error_message"]
    assert (attempt["seq"], attempt["error_code"]) == (1, "upstream_500")
    assert "on fire" in attempt["error_message"]
    assert row["submitted_at"] <= attempt["created_at"] <= row["created_at"]
    for include in ("none", "in_flight"):
        (bare,) = logs(tenant, f"include={include}")["data"]
        assert bare["attempts_count"] is None
        assert list(bare) == ROW[:-1]


@each(
    "path",
    [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/v1beta/models/sim-model:generateContent",
        "/v1/images/generations",
    ],
)
def test_call_refused_for_its_parameters_is_found_by_its_model(h: Deployment, path: str) -> None:
    tenant = h.tenant()
    reply = tenant.client.send("POST", path, {"model": "sim-model", "n": {}, "contents": 5})
    assert reply.status == 400, reply
    (row,) = logs(tenant, "model=sim-model&status=rejected")["data"]
    assert (row["request_id"], row["error_code"]) == (reply.trace, "invalid_request")


def test_a_job_under_way_is_shown_apart_and_a_call_is_not(h: Deployment, tenant: Tenant) -> None:
    with tenant.client.begin_chat(model="hanging", sim={"hang": "headers"}):
        h.upstream.wait(channel="quiet", active=1)
        until(lambda: h.held_nano_usd(tenant) > 0, what="its hold written")
        assert logs(tenant, "include=in_flight")["in_flight"] == []
        assert "in_flight" not in logs(tenant)
        assert logs(tenant, "include=attempts,in_flight")["data"] == []


@each("order", ["desc", "asc"])
def test_pages_freeze_their_window_while_calls_go_on(h: Deployment, order: str) -> None:
    tenant = h.tenant()
    h.upstream.reset()
    expected = [tenant.client.chat().trace for _ in range(5)]
    if order == "desc":
        expected.reverse()
    first = logs(tenant, f"order={order}&limit=2&include=in_flight")
    assert (first["has_more"], first["in_flight"]) == (True, [])
    window = {name: first[name] for name in ("period_from", "period_to")}
    seen, page, pages = [row["request_id"] for row in first["data"]], first, 1
    while page["has_more"]:
        tenant.client.chat()
        cursor = page["next_cursor"]
        page = logs(tenant, f"limit=2&include=in_flight,attempts&cursor={cursor}&period=today")
        assert {name: page[name] for name in window} == window
        assert "in_flight" not in page
        seen += [row["request_id"] for row in page["data"]]
        pages += 1
    assert (seen, pages, page["next_cursor"]) == (expected, 3, None)
    assert len(traces(tenant)) == 7
    assert traces(tenant, f"cursor={first['next_cursor']}&order={order}") == expected[2:]


SUMMARY = "/v1/logs/summary"


def summary(tenant: Tenant, query: str = "") -> dict[str, Any]:
    reply = tenant.client.get(f"{SUMMARY}?{query}")
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json
    return body


def test_figures_are_those_of_the_calls(h: Deployment, tenant: Tenant) -> None:
    usage = {"usage": {"input": 1000, "output": 20, "cached": 400}}
    tenant.client.chat(sim=usage)
    tenant.client.chat(model="other-model", sim=usage)
    tenant.client.chat(model="other-model", sim=usage)
    tenant.client.chat(sim={"status": 422})
    tenant.client.chat(model="nothing")
    days = [row["created_at"].astimezone(UTC).date().isoformat() for row in h.rows(tenant)]
    found = summary(tenant)
    assert list(found) == [
        *("object", "currency", "scope", "period_from", "period_to"),
        *("total", "status_counts", "by_day", "by_model"),
    ]
    assert (found["object"], found["currency"], found["scope"]) == ("logs.summary", "points", "key")
    begin, end = (datetime.fromisoformat(found[name]) for name in ("period_from", "period_to"))
    assert end - begin == timedelta(days=30)
    assert found["total"] == {
        "requests": 5,
        "cost": "2.52",
        "input_tokens": 3000,
        "output_tokens": 60,
        "cached_tokens": 1200,
    }
    assert found["status_counts"] == {"success": 3, "error": 1, "interrupted": 0, "rejected": 1}
    assert [day["date"] for day in found["by_day"]] == sorted(set(days))
    assert list(found["by_day"][0]) == ["date", *found["total"]]
    assert sum(day["requests"] for day in found["by_day"]) == 5
    assert found["by_model"] == [
        {"model": "other-model", "requests": 2, "cost": "1.68", "total_tokens": 2040},
        {"model": "sim-model", "requests": 2, "cost": "0.84", "total_tokens": 1020},
        {"model": "nothing", "requests": 1, "cost": "0", "total_tokens": 0},
    ]


LOGS, SUMMARY = "/v1/logs", "/v1/logs/summary"

DENIED = (403, "permission_error", "permission_denied")


def rate(reply: Response) -> tuple[str, str]:
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
def test_the_matrix_of_kinds_and_scopes(h: Deployment, kind: str, toggle: bool) -> None:
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


def test_another_accounts_rows_are_never_seen(h: Deployment) -> None:
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


def test_logs_work_at_zero_and_outside_the_limits_of_the_account(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=0, rpm=1)
    assert tenant.client.chat().status == 402
    for _ in range(3):
        for path in (LOGS, SUMMARY):
            reply = tenant.client.get(path)
            assert reply.status == 200
            assert "x-ratelimit-limit-requests" not in reply.headers
    # The one call of this minute was the refused one; logs have neither used nor freed a place.
    assert tenant.client.chat().status == 429
