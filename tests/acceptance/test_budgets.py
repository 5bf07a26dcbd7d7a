"""Budgets as operators, owners and keys use them: commands, console, `GET /v1/budgets`."""

from typing import Any

import pytest

from actors.wallet.money import format_usd
from loadtests.rig.client import Client
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.common import SETTINGS as COMMON
from tests.support.console import Visitor, visitor
from tests.support.rows import each

SETTINGS: dict[str, Any] = {**COMMON, "console_listen": A_KNOWN_PORT}
NOTHING = {"spent_usd": "0", "held_usd": "0", "remaining_usd": "5"}


@pytest.fixture
def operator(h: Deployment) -> Visitor:
    return visitor(h)


@pytest.fixture
def owner(h: Deployment, tenant: Tenant) -> Visitor:
    return visitor(h, "--account", tenant.account)


def make(h: Deployment, tenant: Tenant, **options: str) -> dict[str, Any]:
    named = {"name": "all", "scope": "account", "limit_usd": "5", "period": "total", **options}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
    made: dict[str, Any] = h.gw("budget", "create", "--account", tenant.account, *words)
    return made


def form(**fields: str) -> dict[str, str]:
    """The fields of a new budget, as its form has them."""
    return {
        "name": "mine",
        "scope": "account",
        "limit": "2.5",
        "period": "month",
        "time_zone": "Europe/Berlin",
        "action": "refuse",
        "warn_at": "50, 90",
        **fields,
    }


def seen(tenant: Tenant, query: str = "") -> dict[str, dict[str, Any]]:
    """What a key sees, by name."""
    reply = tenant.client.get(f"/v1/budgets{query}")
    assert reply.status == 200, reply
    assert reply.json["object"] == "list"
    return {one["name"]: one for one in reply.json["data"]}


FOR_EVE = {"x-gateway-end-user": "eve", "x-gateway-run": "r1", "x-gateway-run-max-usd": "2.5"}


def test_what_a_call_costs_is_counted_refused_and_shown_everywhere(
    h: Deployment, operator: Visitor
) -> None:
    tenant = h.tenant(user="ann")
    made = {
        scope: make(h, tenant, name=scope, scope=scope, period="day")["id"]
        for scope in ("account", "every_user", "every_end_user", "every_run")
    }
    served = tenant.client.chat(headers=FOR_EVE)
    assert served.status == 200, served
    cost = h.row(served.trace)["cost_nano_usd"]
    assert cost > 0
    left = {"spent_usd": format_usd(cost), "held_usd": "0"}
    logs = h.another(tenant, user="ann", account_logs=True)
    for name, budget in seen(logs, "?run=r1&end_user=eve").items():
        limit = {"r1": "2.5"}.get(name, "5")
        remaining = format_usd(int(limit.replace(".", "")) * 10 ** (9 - ("." in limit)) - cost)
        assert (budget["limit_usd"], budget["remaining_usd"]) == (limit, remaining), name
        assert {one: budget[one] for one in left} == left, name
    ceiling = seen(tenant, "?run=r1")["r1"]
    assert [ceiling[one] for one in ("id", "scope", "subject", "period", "resets_at")] == [
        "run",
        "run",
        "r1",
        "total",
        None,
    ]
    shown = h.gw("budget", "show", made["every_end_user"], "--subject", "eve")["current"]
    assert {one: shown[one] for one in left} == left
    token = h.gw("admin", "token", "create", "--name", "t", "--scope", "read")["token"]
    admin = Client(h.gateway.admin_url, token)
    (of_run,) = admin.get(f"/admin/v1/budgets/{made['every_run']}/sums").json["data"]
    assert (of_run["subject"], of_run["spent_usd"]) == ("r1", format_usd(cost))
    late = admin.get(f"/admin/v1/budgets/{made['every_run']}/sums?at=9999-12-31T23:59:59-01:00")
    assert (late.status, late.json["error"]["code"]) == (400, "invalid_request")

    # A changed limit is in force when the command has answered.
    h.gw("budget", "set", made["account"], "--limit-usd", format_usd(cost))
    refused = tenant.client.chat(headers=FOR_EVE)
    assert (refused.status, refused.code) == (402, "quota_exceeded")
    assert refused.headers["x-gateway-budget"].startswith(f"{made['account']}; needed=")
    h.row(refused.trace)
    page = f"/accounts/{tenant.account}/budgets"
    assert operator.get(page).status_code == 200
    assert "Latest refusals" in operator.text
    assert f'/calls/{h.row(refused.trace)["id"]}"' in operator.page
    assert "eve" in operator.text
    places = [operator.page.index(f'{page}/{one}"') for one in made.values()]
    assert min(places) == places[0]  # the fullest first, though it is the oldest
    assert operator.get(f"{page}/{made['every_user']}").status_code == 200
    assert "ann" in operator.text
    h.gw("budget", "delete", made["account"])
    assert [tenant.client.chat(headers=FOR_EVE).status for _ in range(3)] == [200] * 3
    h.settled(tenant)
    gone = h.gw("budget", "show", made["account"])
    assert gone["current"]["spent_usd"] == format_usd(cost)
    h.verify()


def test_limit_holds_for_calls_that_were_admitted_from_memory(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=10**12)
    budget = make(h, tenant, limit_usd="500")["id"]
    assert [tenant.client.chat().status for _ in range(20)] == [200] * 20
    for _ in range(3):
        h.gw("budget", "set", budget, "--limit-usd", "0")
        assert [tenant.client.chat().status for _ in range(8)] == [402] * 8
        h.gw("budget", "set", budget, "--limit-usd", "500")
        assert [tenant.client.chat().status for _ in range(8)] == [200] * 8
    h.verify()


def test_key_sees_the_budgets_that_its_calls_can_meet(h: Deployment) -> None:
    tenant = h.tenant(user="ann", allowed_models=["sim-model"])
    for scope in ("every_user", "every_end_user", "every_run"):
        make(h, tenant, name=scope, scope=scope)
    for name, scope, subject in (
        ("ann", "user", "ann"),
        ("bob", "user", "bob"),
        ("model", "model", "sim-model"),
        ("label", "label", "team=a"),
        ("end user", "end_user", "eve"),
        ("run", "run", "r1"),
    ):
        make(h, tenant, name=name, scope=scope, subject=subject)
    whole = make(h, tenant)
    of_key = {"all", "ann", "model", "every_user", "every_end_user", "every_run"}
    assert set(seen(tenant)) == of_key
    none = h.another(tenant, user="bob", allowed_models=[])
    assert set(seen(none)) == of_key - {"ann", "model"} | {"bob"}
    logs = h.another(tenant, account_logs=True)
    assert set(seen(logs)) == of_key | {"bob", "label", "end user", "run"}
    assert seen(tenant)["all"] == {
        "object": "budget",
        "id": whole["id"],
        "name": "all",
        "scope": "account",
        "subject": None,
        "limit_usd": "5",
        "period": "total",
        "action": "refuse",
        "period_from": whole["starts_at"],
        "resets_at": None,
        **NOTHING,
    }


def test_query_chooses_whose_sums_are_shown(h: Deployment) -> None:
    tenant = h.tenant(user="ann")
    for scope in ("every_user", "every_end_user", "every_run"):
        make(h, tenant, name=scope, scope=scope)
    unknown = dict.fromkeys(NOTHING)

    def figures(tenant: Tenant, query: str = "") -> dict[str, Any]:
        return {
            name: {one: budget[one] for one in NOTHING}
            for name, budget in seen(tenant, query).items()
        }

    assert figures(tenant) == {
        "every_user": NOTHING,
        "every_end_user": unknown,
        "every_run": unknown,
    }
    assert figures(tenant, "?run=r1")["every_run"] == NOTHING
    logs = h.another(tenant, account_logs=True)
    assert figures(logs, "?end_user=eve")["every_end_user"] == NOTHING
    refused = tenant.client.get("/v1/budgets?end_user=eve")
    assert (refused.status, refused.code) == (403, "permission_denied")
    for query in ("run=a%20b", f"run={'r' * 129}", "run=a&run=b", f"end_user={'e' * 257}"):
        refused = logs.client.get(f"/v1/budgets?{query}")
        assert (refused.status, refused.code) == (400, "invalid_request"), query


def test_list_is_free_counted_and_not_for_agents(h: Deployment) -> None:
    broke = h.tenant(nano_usd=0, rpm=2)
    assert [broke.client.get("/v1/budgets").status for _ in range(3)] == [200, 200, 429]
    tenant = h.tenant()
    agent = h.agent(tenant)
    refused = agent.client.get("/v1/budgets")
    assert (refused.status, refused.code) == (403, "permission_denied")


def test_owner_makes_changes_and_deletes_his_own(
    h: Deployment, tenant: Tenant, owner: Visitor
) -> None:
    page = f"/accounts/{tenant.account}/budgets"
    assert owner.get(page).status_code == 200
    assert owner.post(page, form()).status_code == 303
    (made,) = h.gw("budget", "list", "--account", tenant.account)["budgets"]
    assert (made["made_by"], made["limit_usd"], made["warn_at"]) == ("owner", "2.5", [50, 90])
    assert made["time_zone"] == "Europe/Berlin"
    one = f"{page}/{made['id']}"
    assert owner.get(one).status_code == 200
    assert 'value="50, 90"' in owner.page
    fields = {"act": "set", "name": "ours", "limit": "3", "action": "warn", "warn_at": ""}
    assert owner.post(one, fields).status_code == 303
    changed = h.gw("budget", "show", made["id"])
    assert [changed[name] for name in ("name", "limit_usd", "action", "warn_at")] == [
        "ours",
        "3",
        "warn",
        [],
    ]
    owner.get(one)
    assert owner.post(one, {"act": "delete", "word": "mine"}).status_code == 400
    owner.get(one)
    assert owner.post(one, {"act": "delete", "word": "ours"}).status_code == 303
    assert h.gw("budget", "list", "--account", tenant.account)["budgets"] == []
    trail = h.gw("admin", "audit", "--object", made["id"])["changes"]
    assert [(entry["action"], entry["actor_kind"]) for entry in trail] == [
        ("budget.delete", "owner"),
        ("budget.set", "owner"),
        ("budget.create", "owner"),
    ]


def test_owner_sees_an_operators_budget_and_does_not_change_it(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    made = make(h, tenant)
    page = f"/accounts/{tenant.account}/budgets/{made['id']}"
    assert owner.get(page).status_code == 200
    assert "An operator has made this budget" in owner.text
    owner.get(page.rpartition("/")[0])
    for fields in ({"act": "set", "name": "n"}, {"act": "delete", "word": "all"}):
        assert owner.post(page, {"limit": "1", "action": "warn", **fields}).status_code == 403
    assert h.gw("budget", "show", made["id"]) == made
    operator.get(page)
    fields = {"act": "set", "name": "n", "limit": "1", "action": "warn", "warn_at": "80"}
    assert operator.post(page, fields).status_code == 303
    mine = visitor(h, "--account", h.tenant().account)
    assert mine.get(page).status_code == 404
    elsewhere = page.replace(tenant.account, h.tenant().account)
    assert operator.get(elsewhere).status_code == 404


@each(
    "fields, status",
    [
        ({"limit": "x"}, 400),
        ({"subject": "ann"}, 400),
        ({"scope": "team"}, 400),
        ({"time_zone": "Nowhere/Else"}, 400),
        ({"starts": "2020-01-01"}, 400),
        ({"warn_at": "101"}, 400),
        ({"name": ""}, 400),
        ({"name": "all", "period": "day"}, 409),
    ],
)
def test_form_that_is_refused_says_why(
    h: Deployment, operator: Visitor, fields: dict[str, str], status: int
) -> None:
    tenant = h.tenant()
    make(h, tenant)
    page = f"/accounts/{tenant.account}/budgets"
    operator.get(page)
    assert operator.post(page, form(**fields)).status_code == status
    assert len(h.gw("budget", "list", "--account", tenant.account)["budgets"]) == 1
