"""The admin API of a gateway with two processes, as another program uses it."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.waiting import until
from tests.support.rows import each


@dataclass
class AdminClient:
    """Sends requests with a token; `seen` are the operations whose responses were held."""

    url: str
    token: str
    seen: set[tuple[str, str]] = field(default_factory=set)
    _description: dict[str, Any] | None = None

    @property
    def description(self) -> dict[str, Any]:
        """The description as it is served."""
        if self._description is None:
            reply = send(self.url, "GET", "openapi.json", token=self.token)
            assert reply.status == 200, reply
            self._description = reply.json
        return self._description

    def get(self, path: str) -> Response:
        return self.send("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Response:
        return self.send("POST", path, body, **headers)

    def patch(self, path: str, body: Any) -> Response:
        return self.send("PATCH", path, body)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        reply = send(self.url, method, path, body, token=self.token, headers=headers)
        self.hold(method, path.partition("?")[0], reply)
        return reply

    def hold(self, method: str, path: str, reply: Response) -> None:
        """Fail unless the description has this status for this operation, and this form."""
        template = next(self._templates(path), None)
        operations = self.description["paths"].get(template, {})
        if template is None or method.lower() not in operations:
            assert reply.status in (404, 405), (method, path, reply)
            schema = {"$ref": "#/components/schemas/ErrorBody"}
        else:
            described = operations[method.lower()]["responses"]
            assert str(reply.status) in described, (method, path, reply)
            schema = described[str(reply.status)]["content"]["application/json"]["schema"]
            if reply.status < 300:
                self.seen.add((method, template))
        whole = {**schema, "components": self.description["components"]}
        from jsonschema import Draft202012Validator  # takes a second, in every worker

        Draft202012Validator(whole).validate(reply.json)

    def _templates(self, path: str) -> Iterator[str]:
        for template in self.description["paths"]:
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, f"/admin/v1/{path}"):
                yield template


def send(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One request; a body of bytes is sent as it is."""
    named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
    return Client(url, token).send(method, f"/admin/v1/{path}", body, headers=named)


# A webhook that is sent nothing here.
HOOK = {"url": "https://localhost:1/hook", "types": ["balance.low"]}
SETTINGS: dict[str, Any] = {
    "processes": 2,
    "channels": [
        *(channel(name, priority=at) for at, name in enumerate(("one", "two", "three"))),
        channel("films", protocols=["videos"]),
    ],
    "models": [
        model("sim-model", "one", "two", "three"),
        model("film", "films", endpoint_type="videos_generations", price={"per_second": "0.1"}),
    ],
}


@pytest.fixture(scope="module")
def admin(shared: Deployment) -> AdminClient:
    return client(shared, "write")


def client(deployment: Deployment, scope: str) -> AdminClient:
    made = deployment.gw("admin", "token", "create", "--name", f"tests {scope}", "--scope", scope)
    return AdminClient(deployment.gateway.admin_url, made["token"])


def new_account(admin: AdminClient, **more: Any) -> str:
    made = admin.post("accounts", {"name": "Ann", **more})
    assert made.status == 201, made
    return str(made.json["id"])


def chat(deployment: Deployment, key: str) -> int:
    return Client(deployment.gateway.url, key).chat().status


BEYOND_CALENDAR = "9999-12-31T23:59:59-10:00"  # of the year 10000 in UTC


def test_key_is_made_used_revealed_set_and_revoked(shared: Deployment, admin: AdminClient) -> None:
    account = new_account(admin, credit_usd="2.5", rpm_limit=1000)
    made = admin.post("keys", {"account_id": account, "name": "app", "allowed_models": []}).json
    assert chat(shared, made["key"]) == 400  # no model is allowed
    path = f"keys/{made['id']}"
    assert admin.patch(path, {"allowed_models": None}).json["allowed_models"] is None
    assert chat(shared, made["key"]) == 200
    assert "key" not in admin.get(path).json
    assert admin.post(f"{path}/reveal").json["key"] == made["key"]
    (seen,) = admin.get(f"{path}/views").json["data"]
    assert (seen["os_user"].partition(" (")[0], seen["host"]) == ("token tests write", "127.0.0.1")
    assert admin.post(f"{path}/revoke").json["status"] == "revoked"
    assert [chat(shared, made["key"]) for _ in range(6)] == [401] * 6
    assert admin.patch(path, {"name": "n"}).code == "key_revoked"
    trail = admin.get(f"audit?object={made['id']}").json["data"]
    assert [one["action"] for one in trail] == ["key.revoke", "key.reveal", "key.set", "key.create"]
    assert {one["actor_kind"] for one in trail} == {"token"}
    assert {one["origin"] for one in trail} == {"127.0.0.1"}
    assert made["key"] not in str(trail)


def test_keys_in_bulk_under_one_key_are_made_once(shared: Deployment, admin: AdminClient) -> None:
    account = new_account(admin, credit_usd="1")
    wishes = [{"account_id": account, "name": f"app {number}"} for number in range(12)]
    body = {"keys": [{**wishes[0], "allowed_models": []}, *wishes[1:]]}
    first, second = (admin.post("keys/bulk", body, Idempotency_Key="batch") for _ in range(2))
    assert [first.status, second.status] == [201, 201]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    made = first.json["keys"]
    assert second.json["keys"] == made
    assert [one["name"] for one in made] == [one["name"] for one in wishes]
    assert [chat(shared, one["key"]) for one in made[:2]] == [400, 200]
    # The texts are not in what is kept; what is shown again is a view.
    kept = shared.query("SELECT response FROM admin_responses WHERE key = 'batch'")
    assert not any(one["key"] in str(kept) for one in made)
    assert len(admin.get(f"keys/{made[3]['id']}/views").json["data"]) == 1
    trail = admin.get(f"audit?object={made[3]['id']}").json["data"]
    assert [one["action"] for one in trail] == ["key.reveal", "key.create"]
    assert made[3]["key"] not in str(trail)
    reuse = admin.post("keys/bulk", {"keys": wishes[:1]}, Idempotency_Key="batch")
    assert (reuse.status, reuse.code) == (409, "idempotency_key_reuse")
    assert len(admin.post("keys/bulk", {"keys": wishes[:2]}).json["keys"]) == 2  # each one counts
    assert len(admin.get(f"keys?account_id={account}&limit=200").json["data"]) == 14


def test_every_post_that_changes_rows_has_one_effect_under_one_key(
    shared: Deployment, admin: AdminClient
) -> None:
    account = new_account(admin)
    key = {"account_id": account, "name": "app"}
    agent = {"account_id": account, "name": "a", "system_prompt": "Be kind."}

    def twice(path: str, body: Any = None) -> dict[str, Any]:
        first, second = (admin.post(path, body, Idempotency_Key=f"of/{path}") for _ in range(2))
        assert first.status == second.status < 300, second
        assert "idempotent-replayed" not in first.headers
        assert second.headers["idempotent-replayed"] == "true"
        assert second.json == first.json
        return dict(first.json)

    made = twice("keys", key)
    assert twice(f"keys/{made['id']}/reveal")["key"] == made["key"]
    twice(f"keys/{made['id']}/revoke")
    twice("agents", agent)
    wish = {"account_id": account, "name": "n", "scope": "account", "limit_usd": "1"}
    budget = twice("budgets", {**wish, "period": "day"})
    webhook = twice("webhooks", {**HOOK, "account_id": account})
    rotated = twice(f"webhooks/{webhook['id']}/rotate")
    assert rotated["secret"] != webhook["secret"]
    kept = str(shared.query("SELECT response FROM admin_responses"))
    assert webhook["secret"] not in kept
    assert rotated["secret"] not in kept
    assert [one["id"] for one in admin.get(f"budgets?account_id={account}").json["data"]] == [
        budget["id"]
    ]
    assert admin.post("keys", {**key, "name": "b"}, Idempotency_Key="of/keys").status == 409
    assert len(admin.get(f"keys?account_id={account}").json["data"]) == 1
    assert len(admin.get(f"agents?account_id={account}").json["data"]) == 1
    trail = admin.get(f"audit?object={made['id']}").json["data"]
    assert [one["action"] for one in trail] == [
        "key.revoke",
        *["key.reveal"] * 3,  # the replays of both responses with a text are views
        "key.create",
    ]
    assert made["key"] not in str(shared.query("SELECT response FROM admin_responses"))


@each(
    "wrong, status, message",
    [
        ({"account_id": "acct_none"}, 404, "keys[1]: there is no account acct_none"),
        ({"allowed_models": ["x"]}, 400, "keys[1]: there is no model x"),
        ({"kind": "agent"}, 400, "keys[1]: an agent goes with the kind agent"),
        ({"kind": "agent", "agent_id": "g"}, 400, "keys[1]: the account"),
        ({"user": "a b"}, 400, "keys[1]: 'a b' is not a name"),
        ({"expires_at": BEYOND_CALENDAR}, 400, "body: expires_at is not within"),
        ({"colour": "red"}, 400, "body: Object contains unknown field"),
    ],
)
def test_keys_in_bulk_are_all_made_or_none(
    admin: AdminClient, wrong: dict[str, Any], status: int, message: str
) -> None:
    good = {"account_id": new_account(admin), "name": "n"}
    refused = admin.post("keys/bulk", {"keys": [good, {**good, **wrong}, good]})
    assert refused.status == status
    assert refused.json["error"]["message"].startswith(message)
    assert admin.get(f"keys?account_id={good['account_id']}").json["data"] == []


def test_account_that_is_disabled_is_refused_at_once(
    shared: Deployment, admin: AdminClient
) -> None:
    account = new_account(admin, trial=True)
    key = admin.post("keys", {"account_id": account, "name": "app"}).json["key"]
    assert chat(shared, key) == 200
    changed = admin.patch(f"accounts/{account}", {"enabled": False, "concurrency_limit": 3}).json
    assert (changed["enabled"], changed["concurrency_limit"]) == (False, 3)
    assert [chat(shared, key) for _ in range(4)] == [401] * 4
    shown = admin.get(f"accounts/{account}").json
    assert (shown["enabled"], shown["rpm_limit"]) == (False, None)


def test_top_up_under_one_key_counts_once(shared: Deployment, admin: AdminClient) -> None:
    """Also where the calls come at the same instant, to whichever process."""
    account = new_account(admin)
    path, body = f"accounts/{account}/topups", {"amount_usd": "5", "reference": "pay_1"}
    replies: list[Response] = []

    def pay() -> None:
        replies.append(admin.post(path, body, Idempotency_Key="pay_1"))

    threads = [threading.Thread(target=pay) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [201] * 8
    assert all(reply.json == replies[0].json for reply in replies)
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    assert admin.get(f"accounts/{account}").json["balance_usd"] == "5"
    other = admin.post(path, {"amount_usd": "6"}, Idempotency_Key="pay_1")
    assert (other.status, other.code) == (409, "idempotency_key_reuse")
    assert admin.post(path, body, Idempotency_Key="pay_2").json["balance_usd"] == "10"
    assert admin.post(path, body).json["balance_usd"] == "15"  # without a key each one counts
    assert admin.post(path, {"amount_usd": "0.5"}).code == "amount_too_small"
    rows = admin.get(f"audit?account_id={account}&action=account.topup").json["data"]
    assert len(rows) == 3
    entries = shared.query("SELECT count(*) AS n FROM entries WHERE account_id = %s", account)
    assert entries[0]["n"] == 3


def test_correction_under_one_key_counts_once(shared: Deployment, admin: AdminClient) -> None:
    account = new_account(admin)
    path, body = f"accounts/{account}/corrections", {"amount_usd": "-5.25", "reason": "refunded"}
    replies = [admin.post(path, body, Idempotency_Key="c_1") for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 201]
    assert replies[0].json == replies[1].json
    assert replies[0].json["balance_usd"] == "-5.25"
    assert admin.post(path, {**body, "amount_usd": "0"}).status == 400
    assert admin.post(path, {**body, "reason": " "}).status == 400
    for _ in range(2):
        assert admin.post(path, {**body, "amount_usd": "-4000000000"}).status in (201, 400)
    full = admin.post(path, {**body, "amount_usd": "-4000000000"})
    assert (full.status, full.code) == (400, "balance_out_of_range")
    topped = admin.post(f"accounts/{new_account(admin)}/topups", {"amount_usd": "9999999999"})
    assert topped.status == 400
    rows = admin.get(f"audit?account_id={account}&action=account.correct").json["data"]
    assert rows[-1]["details"] == {"amount_usd": "-5.25", "reason": "refunded"}


def test_lists_are_read_page_by_page(admin: AdminClient) -> None:
    made = [new_account(admin) for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while len(seen) < 5:
        page = admin.get(f"accounts?limit=2{cursor}").json
        assert len(page["data"]) == 2
        seen += [one["id"] for one in page["data"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert seen[:5] == made[::-1]
    for query in ("limit=0", "limit=201", "limit=x", "cursor=AAAA", "cursor=%FF", "other=1"):
        assert admin.get(f"accounts?{query}").code == "invalid_request", query
    assert admin.get("accounts?limit=1&limit=2").status == 400


@each(
    "method, path, body, status",
    [
        ("POST", "accounts", b"{", 400),
        ("POST", "accounts", b"[" * 100_000, 400),
        ("POST", "accounts", {"name": "a", "colour": "red"}, 400),
        ("POST", "accounts", {"name": "a\0b"}, 400),
        ("POST", "accounts", b'{"name": "\\ud800"}', 400),
        ("POST", "accounts", {"name": "a", "credit_usd": 5}, 400),
        ("POST", "accounts", {"name": "a", "credit_usd": "-5"}, 400),
        ("POST", "accounts", {"name": "a", "rpm_limit": 2**31}, 400),
        ("PATCH", "accounts/acct_none", {"enabled": True}, 404),
        ("PATCH", "accounts/acct_none", {}, 400),
        ("GET", "accounts/acct%00", None, 404),
        ("GET", "nothing", None, 404),
        ("DELETE", "accounts", None, 405),
        ("POST", "keys", {"account_id": "acct_none", "name": "n"}, 404),
        ("POST", "keys", {"account_id": "a", "name": "n", "allowed_models": ["x"]}, 400),
        ("POST", "keys", {"account_id": "a", "name": "n", "kind": "agent"}, 400),
        ("POST", "keys", {"account_id": "a", "name": "n", "expires_at": "soon"}, 400),
        ("POST", "keys", {"account_id": "a", "name": "n", "expires_at": BEYOND_CALENDAR}, 400),
        ("POST", "keys/bulk", {"keys": []}, 400),
        ("POST", "keys/bulk", {"keys": [{"account_id": "a", "name": "n"}] * 1001}, 400),
        ("GET", "keys/bulk", None, 405),
        ("PATCH", "keys/key_none", {"expires_at": BEYOND_CALENDAR}, 400),
        ("POST", "accounts", b"x" * (600 * 1024), 413),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_shape(
    admin: AdminClient, method: str, path: str, body: Any, status: int
) -> None:
    reply = admin.send(method, path, body)
    assert reply.status == status
    assert reply.json["error"]["trace_id"] == reply.headers["x-gateway-trace"]


@each("method", ["HEAD", "PUT", "OPTIONS"])
def test_methods_of_no_route_are_405(admin: AdminClient, method: str) -> None:
    assert send(admin.url, method, "accounts", token=admin.token).status == 405


def test_token_that_reads_changes_nothing(shared: Deployment, admin: AdminClient) -> None:
    reader = client(shared, "read")
    account = new_account(admin)
    assert reader.get(f"accounts/{account}").status == 200
    for method, path in (("POST", "accounts"), ("PATCH", f"accounts/{account}")):
        refused = reader.send(method, path, {"name": "n"})
        assert (refused.status, refused.code) == (403, "permission_denied")
    token = next(
        one for one in shared.gw("admin", "token", "list")["tokens"] if one["name"] == "tests read"
    )
    shared.gw("admin", "token", "revoke", token["id"])
    assert reader.get("accounts").status == 401
    assert shared.query("SELECT 1 FROM admin_tokens WHERE digest::text LIKE %s", "%gw-admin%") == []


def test_channel_that_is_drained_takes_no_call_in_any_process(
    h: Deployment, admin: AdminClient
) -> None:
    tenant = h.tenant()
    with tenant.client.begin_chat(stream=True, sim={"events": 9, "pause": 2}) as call:
        h.upstream.wait(paused=1)
        draining = admin.post("channels/one/drain").json
        assert (draining["state"], draining["slots_in_use"]) == ("draining", 1)
        h.upstream.resume()
        assert call.response().is_complete  # a call under way is not touched
    drained = admin.post("channels/one/drain", {"wait_seconds": 5}).json
    assert (drained["state"], drained["health"]) == ("drained", "ok")
    assert [one["withdrawn"] for one in drained["processes"]] == [True, True]
    assert len({one["process_id"] for one in drained["processes"]}) == 2
    assert drained["ordered_by"].startswith("token tests write")
    assert drained["silent_processes"] == []
    for _ in range(6):
        assert tenant.client.chat().status == 200
    assert h.upstream.requested("one", "two") == [1, 6]
    assert admin.post("channels/one/close").json["state"] == "closed"
    for name in ("two", "three"):
        admin.post(f"channels/{name}/close")
    assert tenant.client.chat().status == 503
    for name in ("one", "two", "three"):
        assert admin.post(f"channels/{name}/open").json["state"] == "open_for_calls"
    assert tenant.client.chat().status == 200
    actions = [one["action"] for one in admin.get("audit?object=one").json["data"]]
    assert actions == ["channel.open", "channel.close", "channel.drain", "channel.drain"]


def test_key_that_is_set_aside_is_shown_until_when(h: Deployment, admin: AdminClient) -> None:
    h.upstream.fault("one", status=401)
    assert h.tenant().client.chat().status == 200  # by another channel
    until(lambda: admin.get("channels/one").json["keys_aside"] == 1, what="the key is aside")
    shown = admin.get("channels/one").json
    assert shown["health"] == "degraded"  # in one of the two processes
    instants = [key["aside_until"] for one in shown["processes"] for key in one["keys"]]
    (at,) = [datetime.fromisoformat(at) for at in instants if at is not None]
    assert 200 < (at - datetime.now(UTC)).total_seconds() <= 300
    (found,) = (one for one in admin.get("conditions").json["conditions"] if "key" in one["name"])
    assert found == {
        "name": "channel_key_refused",
        "severity": "warning",
        "message": "Keys of channel one that were refused and are set aside: 1 of 1.",
    }
    opened = admin.post("channels/one/open").json
    assert (opened["keys_aside"], opened["health"]) == (0, "ok")


def test_channel_is_tested_and_models_are_listed(shared: Deployment, admin: AdminClient) -> None:
    tested = admin.post("channels/two/test").json
    assert (tested["channel"], tested["ok"], tested["status"]) == ("two", True, 200)
    assert (tested["models"], tested["not_listed"]) == (1, [])
    assert admin.post("channels/films/test").json["not_listed"] == ["film"]
    assert admin.post("channels/none/test").code == "channel_not_found"
    first = admin.get("channels?limit=2").json
    second = admin.get(f"channels?limit=2&cursor={first['next_cursor']}").json
    assert [one["id"] for one in first["data"] + second["data"]] == [
        *("one", "two", "three", "films")
    ]
    sold, _ = admin.get("models").json["data"]
    assert sold["prices"] == {"input": "1", "output": "10", "cached_input": "0.1"}
    assert [one["id"] for one in sold["channels"]] == ["one", "two", "three"]
    assert admin.get("models/sim-model").json == sold
    assert admin.get("models/none").status == 404


def test_ledger_is_proved_by_one_at_a_time(shared: Deployment, admin: AdminClient) -> None:
    shared.tenant()
    shared.gw("ledger", "verify")
    replies: list[Response] = []
    threads = [
        threading.Thread(target=lambda: replies.append(admin.post("ledger/proof", {"costs": True})))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(reply.status for reply in replies)
    assert statuses[0] == 200
    assert set(statuses) <= {200, 409}
    # A response waits ten seconds for its proof, which on a busy machine may go on.
    until(lambda: not admin.get("ledger/proof").json["is_running"], what="the end of the proof")
    state = admin.get("ledger/proof").json
    assert (state["last"]["ok"], state["last"]["rows"]) == (True, [])
    assert state["last"]["counts"]["accounts"] >= 1
    assert state["last"]["proved_by"].startswith("token tests write")


def test_requests_without_a_good_token_are_refused_and_counted(shared: Deployment) -> None:
    url = shared.gateway.admin_url
    bad = f"gw-admin-{'0' * 64}"
    replies = [send(url, "GET", "accounts", token=bad) for _ in range(20)]
    assert (replies[0].status, replies[0].code) == (401, "invalid_token")
    assert replies[0].headers["www-authenticate"] == "Bearer"
    last = send(url, "GET", "openapi.json")
    assert (last.status, last.code) == (429, "rate_limit_exceeded")
    assert 1 <= int(last.headers["retry-after"]) <= 60


def test_agent_is_made_switched_off_and_its_keys_with_it(
    shared: Deployment, admin: AdminClient
) -> None:
    account = new_account(admin, trial=True)
    wish = {
        "account_id": account,
        "name": "helper",
        "system_prompt": "Be kind.",
        "model": "sim-model",
    }
    made = admin.post("agents", wish).json
    assert made["effective_model"] == "sim-model"
    key = {"account_id": account, "name": "k", "kind": "agent", "agent_id": made["id"]}
    text = admin.post("keys", key).json["key"]
    assert chat(shared, text) == 200
    path = f"agents/{made['id']}"
    assert admin.patch(path, {"enabled": False}).json["enabled"] is False
    assert [chat(shared, text) for _ in range(4)] == [403] * 4
    assert admin.patch(path, {"kbs": ["none"]}).status == 400
    assert admin.patch(path, {"model": "nothing"}).status == 400
    assert admin.get(f"agents?account_id={account}").json["data"][0]["id"] == made["id"]
    entry = admin.get(f"audit?object={made['id']}&action=agent.create").json["data"][0]
    assert "Be kind" not in str(entry)


def test_task_is_cancelled_once(h: Deployment, admin: AdminClient) -> None:
    task = submitted(h, admin)
    shown = admin.get(f"tasks/{task}").json
    cancelled = admin.post(f"tasks/{task}/cancel").json
    assert cancelled == {"id": task, "status": "cancelled", "refunded_usd": "0.5"}
    assert admin.post(f"tasks/{task}/cancel").code == "task_finished"
    assert admin.get(f"accounts/{shown['account']}").json["held_usd"] == "0"
    (entry,) = admin.get(f"audit?object={task}").json["data"]
    assert (entry["action"], entry["account_id"]) == ("task.cancel", shown["account"])
    listed = admin.get(f"tasks?account_id={shown['account']}&status=cancelled").json["data"]
    assert [one["id"] for one in listed] == [task]


def submitted(deployment: Deployment, admin: AdminClient) -> str:
    """A film that its upstream does not finish; returns its task."""
    deployment.upstream.fault("films", task_seconds=3600)
    body = {"model": "film", "duration": 5, "content": [{"type": "text", "text": "A boat"}]}
    data = json.dumps(body).encode()
    reply = deployment.tenant().client.send("POST", "/v1/videos/generations", data)
    assert reply.status == 200, reply
    return str(reply.json["id"])


def test_every_route_responds_as_it_is_described(h: Deployment, tmp_path: Path) -> None:
    admin = client(h, "write")
    account = new_account(admin)
    key = admin.post("keys", {"account_id": account, "name": "n"}).json["id"]
    wish = {"account_id": account, "name": "a", "system_prompt": "Be kind."}
    agent = admin.post("agents", wish).json["id"]
    limit = {
        "account_id": account,
        "name": "first",
        "scope": "account",
        "limit_usd": "1",
        "period": "day",
    }
    budget = admin.post("budgets", limit).json["id"]
    webhook = admin.post("webhooks", {**HOOK, "account_id": account}).json["id"]
    task = submitted(h, admin)
    (tmp_path / "first.md").write_text("---\ntitle: First\n---\nA page.\n")
    h.gw("kb", "import", "--account", account, "--kb", "sea", str(tmp_path))
    for method, path, body in (
        ("GET", "accounts", None),
        ("GET", f"accounts/{account}", None),
        ("PATCH", f"accounts/{account}", {"rpm_limit": 5}),
        ("GET", f"accounts/{account}/usage?by=key", None),
        ("POST", f"accounts/{account}/topups", {"amount_usd": "1"}),
        ("POST", f"accounts/{account}/corrections", {"amount_usd": "-1", "reason": "r"}),
        ("POST", "keys/bulk", {"keys": [{"account_id": account, "name": "n"}]}),
        ("GET", f"keys?account_id={account}", None),
        ("GET", f"keys/{key}", None),
        ("PATCH", f"keys/{key}", {"name": "m"}),
        ("POST", f"keys/{key}/reveal", None),
        ("GET", f"keys/{key}/views", None),
        ("POST", f"keys/{key}/revoke", None),
        ("GET", "audit", None),
        ("GET", "events", None),
        ("GET", "agents", None),
        ("POST", "agents", {"account_id": account, "name": "a", "system_prompt": "Be kind."}),
        ("GET", f"agents/{agent}", None),
        ("PATCH", f"agents/{agent}", {"temperature": 0.5}),
        ("GET", f"budgets?account_id={account}&deleted=true", None),
        ("POST", "budgets", {**limit, "name": "second", "scope": "every_user"}),
        ("GET", f"budgets/{budget}?at=2030-01-31T12:00:00Z", None),
        ("PATCH", f"budgets/{budget}", {"limit_usd": "2"}),
        ("GET", f"budgets/{budget}/sums", None),
        ("DELETE", f"budgets/{budget}", None),
        ("GET", f"webhooks?account_id={account}", None),
        ("POST", "webhooks", HOOK),
        ("GET", f"webhooks/{webhook}", None),
        ("PATCH", f"webhooks/{webhook}", {"enabled": False, "types": None}),
        ("POST", f"webhooks/{webhook}/rotate", {"keep_hours": 1}),
        ("POST", f"webhooks/{webhook}/test", None),
        ("POST", f"webhooks/{webhook}/replay", {"dead": True}),
        ("GET", f"webhooks/{webhook}/deliveries?status=dead", None),
        ("DELETE", f"webhooks/{webhook}", None),
        ("GET", f"accounts/{account}/kbs", None),
        ("GET", f"accounts/{account}/kbs/sea", None),
        ("POST", f"accounts/{account}/kbs/sea/grant", {"user": "ann"}),
        ("POST", f"accounts/{account}/kbs/sea/revoke", {"user": "ann"}),
        ("DELETE", f"accounts/{account}/kbs/sea?page=first", None),
        ("GET", "tasks?kind=video", None),
        ("GET", f"tasks/{task}", None),
        ("POST", f"tasks/{task}/cancel", None),
        ("GET", "channels", None),
        ("GET", "channels/one", None),
        *(("POST", f"channels/one/{what}", None) for what in ("test", "drain", "close", "open")),
        ("GET", "models", None),
        ("GET", "models/sim-model", None),
        ("GET", "conditions", None),
        ("GET", "ledger/proof", None),
        ("POST", "ledger/proof", None),
    ):
        assert admin.send(method, path, body).status in (200, 201), path
    described = {
        (method.upper(), path)
        for path, operations in admin.description["paths"].items()
        for method in operations
    }
    assert described - admin.seen == {("GET", "/admin/v1/openapi.json")}
