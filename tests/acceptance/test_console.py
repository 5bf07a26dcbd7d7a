"""The console without a browser: who gets in, who sees what, what a form may do, what is noted."""

import csv
import html
import io
import json
import re
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from gw.console.texts import TEXTS
from gw.keys.views import Viewer
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, channel, model
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance.common import SETTINGS as COMMON
from tests.support.console import Visitor, link, visitor

FILM = model("film", "films", endpoint_type="videos_generations", price={"per_second": "0.1"})
SETTINGS: dict[str, Any] = {
    **COMMON,
    "channels": [
        *COMMON["channels"],
        channel("films", protocols=["videos"]),
        channel("busy", on_429="next"),
    ],
    "models": [*COMMON["models"], FILM, model("hopping", "busy")],
    "console_listen": A_KNOWN_PORT,
}
NASTY = "<script>alert(1)</script>\"'&"
TEMPLATES = Path(__file__).parents[2] / "gw" / "console" / "templates"


@pytest.fixture
def operator(h: Deployment) -> Visitor:
    return visitor(h)


@pytest.fixture
def owner(h: Deployment, tenant: Tenant) -> Visitor:
    return visitor(h, "--account", tenant.account)


def chat(tenant: Tenant, text: str = "Hello", model: str = "sim-model") -> str:
    """A call, and its trace id."""
    return tenant.client.chat(model=model, messages=[{"role": "user", "content": text}]).trace


def test_a_link_signs_in_once_and_a_look_at_it_spends_nothing(h: Deployment) -> None:
    url = link(h)
    for _ in range(2):
        assert requests.head(url, timeout=30).status_code == 200
        assert 'class="main"' in requests.get(url, timeout=30).text
    forged = url[:-1] + ("A" if url[-1] != "A" else "B")
    assert requests.get(forged, timeout=30).status_code == 410
    assert requests.post(forged, timeout=30).status_code == 410
    foreign = {"Origin": "https://elsewhere.example"}
    assert requests.post(url, headers=foreign, timeout=30).status_code == 403
    statuses: list[int] = []

    def press() -> None:
        statuses.append(requests.post(url, timeout=30, allow_redirects=False).status_code)

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [303, 410, 410, 410]
    assert requests.get(url, timeout=30).status_code == 410
    digests = h.query("SELECT digest::text FROM console_sessions")
    assert digests
    assert all(url.rpartition("/")[2] not in one["digest"] for one in digests)


def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(h: Deployment) -> None:
    url = link(h)
    response = requests.post(url, timeout=30, allow_redirects=False)
    cookie = response.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    base = url.partition("/sign-in")[0]
    for path in ("/", "/calls", "/accounts", "/stream", "/sessions", "/audit"):
        response = requests.get(base + path, cookies={"gw_console": "stolen"}, timeout=30)
        assert response.status_code == 401, path
        headers = response.headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["x-gateway-trace"] in response.text
    rebound = requests.get(f"{base}/", headers={"Host": "attacker.example"}, timeout=30)
    assert rebound.status_code == 421


def test_a_session_that_was_ended_opens_nothing_anywhere(h: Deployment, operator: Visitor) -> None:
    other = visitor(h)
    operator.get("/sessions")
    ids = re.findall(r'name="id" value="(sess_\w+)"', operator.page)
    for session_id in ids:
        assert operator.post("/sessions", {"id": session_id}).status_code == 303
    assert other.get("/").status_code == 401
    operator.get("/")
    assert operator.post("/sign-out").status_code == 200
    assert operator.get("/").status_code == 401


def test_an_owner_sees_one_account_and_no_other(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    other = h.tenant()
    mine, theirs = chat(tenant), chat(other)
    h.row(mine)
    row = h.row(theirs)
    for path in (
        "/accounts",
        "/calls",
        f"/accounts/{other.account}",
        f"/accounts/{other.account}/calls",
        f"/accounts/{other.account}/calls.csv",
        f"/accounts/{other.account}/statement.csv",
        f"/accounts/{other.account}/keys",
        f"/accounts/{other.account}/budgets",
        f"/accounts/{other.account}/usage",
        f"/accounts/{tenant.account}/keys/{other.key_id}",
        f"/calls/{row['id']}",
        f"/search?q={theirs}",
    ):
        assert owner.get(path).status_code == 404, path
    for path in (f"/accounts/{other.account}/keys", f"/accounts/{tenant.account}/keys"):
        owner.get("/")
        form = {"name": "x", "which": "all", "act": "reveal"}
        assert owner.post(f"{path}/{other.key_id}", form).status_code == 404
    owner.get("/")
    assert (
        owner.post(f"/accounts/{tenant.account}", {"act": "topup", "amount": "5"}).status_code
        == 404
    )
    assert owner.get(f"/search?q={mine}").status_code == 303
    assert theirs not in owner.get(f"/accounts/{tenant.account}/calls").text
    assert operator.get(f"/search?q={theirs}").status_code == 303
    found = operator.get(f"/accounts?q={other.account}").text
    assert f'<a href="/accounts/{other.account}">' in found
    assert tenant.account not in found


def test_a_form_of_another_site_or_session_changes_nothing(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    path, form = f"/accounts/{tenant.account}", {"act": "topup", "amount": "5"}
    operator.get(path)
    before = h.balance_nano_usd(tenant)
    assert operator.post(path, form, Origin="https://elsewhere.example").status_code == 403
    assert operator.post(path, form, Origin="null").status_code == 403
    assert operator.post(path, {**form, "csrf": ""}).status_code == 403
    owner.get("/")
    foreign = re.search(r'name="csrf" value="(\w+)"', owner.page)
    assert foreign
    assert operator.post(path, {**form, "csrf": foreign[1]}).status_code == 403
    assert h.balance_nano_usd(tenant) == before
    assert operator.post(path, form, Origin=operator.base).status_code == 303
    assert h.balance_nano_usd(tenant) == before + 5_000_000_000
    corrected = {"act": "correct", "amount": "-5", "reason": "paid twice"}
    assert operator.post(path, {**corrected, "amount": "0"}).status_code == 400
    assert operator.post(path, corrected).status_code == 303
    assert h.balance_nano_usd(tenant) == before
    operator.get(path)
    assert "correction" in operator.page
    statement = operator.get(f"{path}/statement.csv?period=30d").text
    assert ",correction,,,,-5\n" in statement.replace("\r", "")
    operator.get("/audit")
    assert "paid twice" in operator.page
    assert "account.topup" in operator.page
    assert "amount_usd 5" in operator.text


def test_the_form_of_a_new_account_has_the_members_that_it_is_given(
    h: Deployment, operator: Visitor
) -> None:
    operator.get("/accounts")
    fields = set(re.findall(r'<input [^>]*name="(\w+)"', operator.page))
    assert {"name", "credit", "trial", "rpm", "concurrency"} <= fields
    assert operator.post("/accounts", {"name": " "}).status_code == 400
    assert operator.post("/accounts", {"name": "x", "credit": "-1"}).status_code == 400
    for form, stored in (
        ({"name": NASTY}, (0, None)),
        ({"name": NASTY, "credit": "2.5", "trial": "on", "rpm": "7"}, (2_800_000_000, 7)),
    ):
        operator.get("/accounts")
        made = operator.post("/accounts", form)
        assert made.status_code == 303, made.text
        account = made.headers["Location"].rpartition("/")[2]
        (row,) = h.query("SELECT name, rpm_limit FROM accounts WHERE id = %s", account)
        assert row == {"name": NASTY, "rpm_limit": stored[1]}
        (credits,) = h.query(
            "SELECT coalesce(sum(amount_nano_usd), 0)::bigint AS nano FROM entries"
            " WHERE account_id = %s",
            account,
        )
        assert credits["nano"] == stored[0]
        operator.get(f"/accounts/{account}")
        assert "<script>alert" not in operator.page


def test_a_form_is_booked_once(h: Deployment, tenant: Tenant, operator: Visitor) -> None:
    path, form = f"/accounts/{tenant.account}", {"act": "topup", "amount": "5"}
    operator.get(path)
    before = h.balance_nano_usd(tenant)
    assert operator.post(path, {**form, "amount": "much"}).status_code == 400
    with ThreadPoolExecutor(4) as some:
        sent = [some.submit(operator.post, path, form) for _ in range(4)]
        assert sorted(one.result().status_code for one in sent) == [303, 409, 409, 409]
    assert operator.post(path, form).status_code == 409
    assert h.balance_nano_usd(tenant) == before + 5_000_000_000
    # Another form of the same page is another one.
    limits = {"act": "limits", "rpm": "7", "concurrency": ""}
    assert operator.post(path, limits).status_code == 303
    operator.get(path)
    assert operator.post(path, form).status_code == 303
    assert h.balance_nano_usd(tenant) == before + 10_000_000_000


def test_owners_do_not_lift_what_an_operator_has_locked(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    path = f"/accounts/{tenant.account}/keys/{tenant.key_id}"

    def press(who: Visitor, act: str) -> int:
        who.get(path)
        return who.post(path, {"act": act}).status_code

    assert [press(owner, act) for act in ("disable", "enable", "disable")] == [303] * 3
    assert press(operator, "disable") == 303  # what the owner disabled is now locked, too
    assert press(owner, "enable") == 403
    assert TEXTS("keys.locked") in owner.get(path).text
    assert TEXTS("keys.enable") not in owner.page
    assert tenant.client.get("/v1/models").status == 401
    assert [press(operator, "enable"), press(owner, "disable"), press(owner, "enable")] == [303] * 3
    h.gw("key", "disable", tenant.key_id)
    assert press(owner, "enable") == 403
    h.gw("key", "enable", tenant.key_id)
    assert tenant.client.get("/v1/models").status == 200


def test_owners_do_not_enable_an_agent_that_an_operator_has_disabled(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    agent = h.agent(tenant)

    def press(who: Visitor, act: str) -> int:
        who.get("/agents")
        return who.post("/agents", {"id": agent.agent_id, "act": act}).status_code

    def calls() -> int:
        return agent.client.chat(model="harbour").status

    assert calls() == 200
    assert [press(owner, act) for act in ("disable", "enable", "disable")] == [303] * 3
    assert press(operator, "disable") == 303  # what the owner disabled is now locked, too
    assert press(owner, "enable") == 403
    assert TEXTS("lists.locked_agent") in owner.get("/agents").text
    assert TEXTS("lists.enable") not in owner.page
    assert calls() == 403
    assert [press(operator, "enable"), press(owner, "disable"), press(owner, "enable")] == [303] * 3
    h.gw("agent", "disable", agent.agent_id)
    assert press(owner, "enable") == 403
    h.gw("agent", "enable", agent.agent_id)
    assert calls() == 200


def test_owners_of_a_disabled_account_are_signed_out_and_not_in(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    early = link(h, "--account", tenant.account)
    h.gw("account", "disable", tenant.account)
    assert owner.get("/").status_code == 401
    late = link(h, "--account", tenant.account)
    for one in (early, late):
        base, _, path = one.partition("/sign-in/")
        stranger = Visitor(base)
        assert stranger.get(f"/sign-in/{path}").status_code == 410
        assert stranger.post(f"/sign-in/{path}").status_code == 410
    h.gw("account", "enable", tenant.account)
    assert owner.get("/").status_code == 401  # it has ended
    assert operator.get(f"/accounts/{tenant.account}").status_code == 200
    assert visitor(h, "--account", tenant.account).get("/").status_code == 200


def test_a_link_has_its_row_in_the_trail_and_owners_see_nobodys_host(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    h.gw("account", "topup", tenant.account, "1")
    path = f"/accounts/{tenant.account}/keys/{tenant.key_id}"
    owner.get(path)
    assert owner.post(path, {"act": "disable"}).status_code == 303
    operator.get("/audit")
    assert "console.link" in operator.page
    maker = Viewer.of_this_process()
    assert f"{maker.os_user}" in operator.text
    assert maker.host in operator.text
    for page in ("/audit", "/sessions", "/", f"/accounts/{tenant.account}", path):
        owner.get(page)
        assert maker.host not in owner.text, page
        assert f"{maker.os_user}@" not in owner.page, page
    owner.get("/audit")
    for action in ("console.link", "console.sign_in", "account.topup", "key.set"):
        assert action in owner.page, action


def test_a_key_is_made_used_changed_and_revoked(
    h: Deployment, tenant: Tenant, owner: Visitor
) -> None:
    path = f"/accounts/{tenant.account}/keys"
    owner.get(path)
    form = {"name": NASTY, "which": "some", "model": ["sim-model"], "cap": "0.5"}
    assert owner.post(path, form).status_code == 200
    text = re.search(r"sk-platform-[0-9a-f]{64}", owner.page)
    assert text
    assert "<script>alert" not in owner.page
    key = Tenant(tenant.account, "", type(tenant.client)(tenant.client.url, text[0]))
    trace = chat(key)
    h.row(trace)
    assert key.client.chat(model="other-model").status == 400
    owner.get(path)
    key_id = re.search(rf"{path}/(key_\w+)\">&lt;script", owner.page)
    assert key_id
    one = f"{path}/{key_id[1]}"
    assert text[0] not in owner.get(one).text
    assert owner.post(one, {"act": "reveal"}).status_code == 200
    assert text[0] in owner.page
    assert set(re.findall("openai/(.+-model)", owner.text)) == {"sim-model"}
    assert owner.post(one, {"act": "revoke", "word": "no"}).status_code == 400
    assert chat(key)
    owner.get(one)
    assert owner.post(one, {"act": "revoke", "word": NASTY}).status_code == 303
    assert key.client.get("/v1/models").status == 401
    owner.get("/audit")
    for action in ("key.create", "key.reveal", "key.revoke", "console.sign_in"):
        assert action in owner.page, action


def test_a_call_shows_its_receipt_and_the_file_agrees(
    h: Deployment, tenant: Tenant, owner: Visitor
) -> None:
    trace = chat(tenant)
    row = h.row(trace)
    failed = chat(tenant, model=NASTY)
    h.row(failed)
    assert owner.get(f"/calls/{row['id']}").status_code == 200
    assert TEXTS("receipt.agrees") in owner.page
    assert "one" not in re.findall(r'class="step">([^<]*)', owner.page)
    steps = re.findall(r'<rect[^>]* x="(\d+)"[^>]* width="(\d+)"', owner.page)
    assert steps
    assert all(int(width) >= 4 and int(x) + int(width) <= 1001 for x, width in steps)
    found = re.search(r'id="total">([\d.]+)', owner.page)
    assert found
    assert round(float(found[1]) * 1e9) == row["cost_nano_usd"]
    listed = owner.get(f"/accounts/{tenant.account}/calls?status=success").text
    assert f"/calls/{row['id']}" in listed
    assert "<script>alert" not in owner.get(f"/accounts/{tenant.account}/calls").text
    lines = list(
        csv.DictReader(io.StringIO(owner.get(f"/accounts/{tenant.account}/calls.csv").text))
    )
    assert {trace, failed} == {one["trace_id"] for one in lines}
    statement = owner.get(f"/accounts/{tenant.account}/statement.csv?period=today").text
    amounts = [one["amount_usd"] for one in csv.DictReader(io.StringIO(statement))]
    assert sum(round(float(one) * 1e9) for one in amounts) == h.balance_nano_usd(tenant)


def test_all_calls_are_filtered_and_name_their_accounts(
    h: Deployment, tenant: Tenant, operator: Visitor
) -> None:
    other = h.tenant()
    traces = [chat(tenant), chat(tenant, model=NASTY), chat(other)]
    mine, refused, theirs = ids = [h.row(trace)["id"] for trace in traces]
    (channel_id,) = {
        one["channel_id"] for one in h.query("SELECT channel_id FROM call_logs WHERE id = %s", mine)
    }
    (account,) = h.query("SELECT name FROM accounts WHERE id = %s", other.account)

    def listed(query: str) -> list[int]:
        assert operator.get(f"/calls?{query}").status_code == 200
        found = re.findall(r'<td class="name"><a href="/calls/(\d+)">', operator.page)
        return [int(one) for one in found if int(one) in ids]

    of_both = f"account={tenant.account}"
    today = h.query("SELECT (now() AT TIME ZONE 'UTC')::date::text AS day")[0]["day"]
    for query, expected in (
        ("", [theirs, refused, mine]),
        (of_both, [refused, mine]),
        (f"key_id={other.key_id}", [theirs]),
        (f"key_id={other.key_id}&{of_both}", []),
        ("status=success", [theirs, mine]),
        (f"status=rejected&{of_both}", [refused]),
        (f"model=sim-model&{of_both}", [mine]),
        (f"channel={channel_id}&{of_both}", [mine]),
        ("channel=none", []),
        ("period=today", [theirs, refused, mine]),
        (f"from={today}&to={today}", [theirs, refused, mine]),
        ("from=2020-01-01&to=2020-01-02", []),
        (f"from=2020-01-01&to=2020-01-02&{of_both}", []),
        (f"before={theirs}", [refused, mine]),
        (f"before={refused}&{of_both}", [mine]),
    ):
        assert listed(query) == expected, query
    assert listed("") == [theirs, refused, mine]
    assert "<script>alert" not in operator.page
    assert f'title="{other.account}">{account["name"]}</a>' in operator.page
    # By name, of which there may be several; another filter stays.
    clear, shared = secrets.token_hex(8), secrets.token_hex(8)
    with transaction(h.settings["database_url"]) as store:
        store.execute("UPDATE accounts SET name = %s WHERE id = %s", (clear, other.account))
        keys = [tenant.key_id, other.key_id]
        store.execute("UPDATE keys SET name = %s WHERE id = ANY(%s)", (shared, keys))
    assert listed(urlencode({"account": clear})) == [theirs]
    assert listed(urlencode({"account": clear, "key_id": shared})) == [theirs]
    assert listed(urlencode({"account": "nobody"})) == []
    assert listed(urlencode({"key_id": shared, "status": "success"})) == []
    assert f"Several keys are named {shared}" in operator.text
    for one, calls in ((tenant, [mine]), (other, [theirs])):
        (query,) = re.findall(rf'href="/calls\?([^"]*key_id={one.key_id}[^"]*)"', operator.page)
        assert listed(html.unescape(query)) == calls
        assert listed(urlencode({"key_id": shared, "status": "success"})) == []
    for wrong in ("status=x", "period=x", "from=2020-01-01", "before=0"):
        assert operator.get(f"/calls?{wrong}").status_code == 400, wrong
    operator.get(f"/accounts/{tenant.account}/keys/{tenant.key_id}")
    assert f'href="/calls?key_id={tenant.key_id}"' in operator.page
    operator.get("/channels")
    assert f'href="/calls?channel={channel_id}"' in operator.page


def test_an_account_shows_what_its_conversations_cost(
    h: Deployment, tenant: Tenant, owner: Visitor
) -> None:
    rows = []
    for name in ("dear", "cheap", "dear", NASTY):
        trace = tenant.client.chat(headers={"session_id": name}).trace
        rows.append(h.row(trace))
    h.row(chat(tenant, "a lone turn belongs to none"))
    assert owner.get(f"/accounts/{tenant.account}").status_code == 200
    table = owner.page.partition(TEXTS("account.by_conversation"))[2].partition("</table>")[0]
    found = re.findall(
        r'href="/calls/(\d+)"><code>(\w{16})</code>.*?n">(\d+)</td>.*?n">([\d.]+)', table
    )
    of_dear = blake2b(b"dear", digest_size=8).hexdigest()
    cost = rows[0]["cost_nano_usd"] + rows[2]["cost_nano_usd"]
    assert found[0][:3] == (str(rows[2]["id"]), of_dear, "2")
    assert round(float(found[0][3]) * 1e9) == cost
    assert [one[2] for one in found] == ["2", "1", "1"]


def test_the_overview_moves(h: Deployment, tenant: Tenant, operator: Visitor) -> None:
    def moved() -> bool:
        chat(tenant)
        return any(
            '"calls":"0.0"' not in line
            for line in (next(lines) for _ in range(2))
            if line.startswith("data:")
        )

    with operator.web.get(f"{operator.base}/stream", stream=True, timeout=30) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = (line.decode() for line in stream.iter_lines() if line)
        until(moved, what="a board with calls")


def test_every_text_of_a_page_is_there() -> None:
    used: set[str] = set()
    for folder, pattern in ((TEMPLATES, "*.html"), (TEMPLATES.parent, "*.py")):
        for path in folder.glob(pattern):
            text = path.read_text("utf-8")
            used |= set(re.findall(r"""\bt\('([a-z_]+\.[a-z_0-9]+)'[,)]""", text))
            used |= set(
                re.findall(
                    r"""(?:TEXTS|self\.refuse)\((?:\s*\d+,)?\s*"([a-z_]+\.[a-z_]+)\"""", text
                )
            )
    for name in used:
        assert TEXTS.get(name, ""), name


def test_operators_see_the_rest_and_owners_no_more_than_theirs(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    for path in ("/channels", "/models", "/system", "/events", "/webhooks"):
        assert owner.get(path).status_code == 404, path
        assert operator.get(path).status_code == 200, path
    for path in ("/agents", "/bases", "/tasks", "/playground", "/audit", "/sessions"):
        assert owner.get(path).status_code == 200, path
        assert operator.get(path).status_code == 200, path
    operator.get("/channels")
    assert operator.post("/channels", {"id": "one", "act": "test"}).status_code == 200
    assert "one: 200, 1 models" in operator.text
    operator.get("/system")
    assert operator.post("/system").status_code == 303
    operator.get("/system")
    assert TEXTS("system.adds_up") in operator.page
    assert h.settings["secret"] not in operator.page
    assert "ledger.verify" in operator.get("/audit").text


def row_of(operator: Visitor, name: str) -> str:
    """The row of a channel."""
    page = operator.get("/channels").text
    return page.partition(f'<td class="name">{name}<')[2].partition("</tr>")[0]


def test_operators_see_which_key_rests_after_a_429(
    h: Deployment, tenant: Tenant, operator: Visitor
) -> None:
    assert TEXTS("channels.in_use", keys=1) in row_of(operator, "busy")
    h.upstream.fault("busy", status=429, retry_after=50, times=1)
    chat(tenant, model="hopping")
    shown = re.search(r"key 1 rests for (\d+) s after a 429", row_of(operator, "busy"))
    assert shown
    assert 0 < int(shown[1]) <= 51
    assert TEXTS("state.closed") in row_of(operator, "busy")


def test_operators_take_channels_out_and_put_them_back(h: Deployment, operator: Visitor) -> None:
    row = partial(row_of, operator)
    acts = re.compile(r'name="act" value="(\w+)"')
    assert acts.findall(row("films")) == ["test", "drain", "close"]
    for act, state, left in (
        ("drain", "drained", ["test", "open", "close"]),
        ("close", "closed", ["test", "open"]),
        ("open", None, ["test", "drain", "close"]),
    ):
        assert operator.post("/channels", {"id": "films", "act": act}).status_code == 303
        shown = row("films")
        assert acts.findall(shown) == left
        assert TEXTS(f"state.ordered_{state}" if state else "state.closed") in shown
    assert operator.post("/channels", {"id": "films", "act": "melt"}).status_code == 400


def test_operators_cancel_a_task_and_its_hold_is_given_back(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    h.upstream.fault("films", task_seconds=3600)
    body = {"model": "film", "duration": 5, "content": [{"type": "text", "text": "A boat"}]}
    reply = tenant.client.send("POST", "/v1/videos/generations", json.dumps(body).encode())
    form = {"id": reply.json["id"]}
    owner.get("/tasks")
    assert form["id"] in owner.page
    assert TEXTS("lists.cancel") not in owner.page
    assert owner.post("/tasks", form).status_code == 404
    operator.get("/tasks")
    assert operator.post("/tasks", form).status_code == 303
    assert operator.post("/tasks", form).status_code == 409
    (account,) = h.query("SELECT held_nano_usd AS held FROM accounts WHERE id = %s", tenant.account)
    assert account["held"] == 0
    assert "task.cancel" in operator.get("/audit").text


def test_operators_decide_on_requests_for_keys(
    h: Deployment, tenant: Tenant, owner: Visitor, operator: Visitor
) -> None:
    agent = h.agent(tenant, name=NASTY)
    (key,) = h.query("SELECT agent_id FROM keys WHERE id = %s", agent.key_id)
    ask = ("key", "request", "--account", tenant.account, "--agent", key["agent_id"])
    first, second = (
        h.gw(*ask, "--name", name, "--requested-by", NASTY, "--spend-cap-usd", "0.25")["id"]
        for name in ("first", "second")
    )
    assert owner.get("/requests").status_code == 404
    assert owner.post("/requests", {"id": first, "act": "approve"}).status_code == 404
    operator.get("/requests")
    assert {first, second} <= set(re.findall(r'name="id" value="(\w+)"', operator.page))
    assert "<script>alert" not in operator.page
    assert operator.post("/requests", {"id": second, "act": "reject"}).status_code == 303
    assert operator.post("/requests", {"id": first, "act": "approve"}).status_code == 200
    text = re.search(r"sk-platform-[0-9a-f]{64}", operator.page)
    assert text
    assert type(tenant.client)(tenant.client.url, text[0]).chat().status == 200
    operator.get("/requests")
    assert not {first, second} & set(re.findall(r'name="id" value="(\w+)"', operator.page))
    assert operator.post("/requests", {"id": second, "act": "approve"}).status_code == 409
    operator.get("/audit")
    assert all(f"<td>{action}</td>" in operator.page for action in ("key.approve", "key.reject"))


def test_operators_make_test_change_and_delete_webhooks(h: Deployment, operator: Visitor) -> None:
    operator.get("/webhooks")
    form = {"url": "https://localhost:1/hook", "type": "balance.low, key.*", "account": ""}
    assert operator.post("/webhooks", {**form, "url": "http://example.com/"}).status_code == 400
    assert operator.post("/webhooks", {**form, "type": NASTY}).status_code == 400
    operator.get("/webhooks")
    assert operator.post("/webhooks", form).status_code == 200
    (secret,) = re.findall(r"whsec_[A-Za-z0-9+/]{43}=", html.unescape(operator.page))
    (made,) = h.gw("webhook", "list")["webhooks"]
    assert made["types"] == ["balance.low", "key.*"]
    path = f"/webhooks/{made['id']}"
    assert operator.get(path).status_code == 200
    assert secret not in html.unescape(operator.page)
    assert operator.post(path, {"act": "test"}).status_code == 200
    assert "refused_address" in operator.text
    for act, enabled in (("disable", False), ("enable", True)):
        operator.get(path)
        assert operator.post(path, {"act": act}).status_code == 303
        assert h.gw("webhook", "show", made["id"])["enabled"] is enabled
    operator.get(path)
    changed = {"act": "set", "url": "https://localhost:2/hook", "type": ""}
    assert operator.post(path, changed).status_code == 303
    assert "call.settled" not in h.gw("webhook", "show", made["id"])["types"]
    operator.get(path)
    assert operator.post(path, {"act": "rotate"}).status_code == 200
    assert "whsec_" in operator.page
    operator.get(path)
    assert operator.post(path, {"act": "nonsense"}).status_code == 400
    operator.get(path)
    assert operator.post(path, {"act": "delete"}).status_code == 303
    assert operator.get(path).status_code == 404


def test_operators_make_and_revoke_tokens_of_the_admin_api(
    h: Deployment, owner: Visitor, operator: Visitor
) -> None:
    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{h.gateway.admin_url}/admin/v1/accounts"
        return requests.get(url, headers=headers, timeout=30).status_code

    assert owner.get("/tokens").status_code == 404
    operator.get("/tokens")
    form = {"act": "create", "name": NASTY, "scope": "read"}
    assert operator.post("/tokens", {**form, "scope": "all"}).status_code == 400
    assert operator.post("/tokens", form).status_code == 200
    (token,) = re.findall(r"gw-admin-[0-9a-f]{64}", operator.page)
    assert "<script>alert" not in operator.page
    assert status(token) == 200
    operator.get("/tokens")
    assert token not in operator.page
    (made,) = h.query("SELECT id FROM admin_tokens WHERE name = %s", NASTY)
    assert operator.post("/tokens", {"act": "revoke", "id": made["id"]}).status_code == 303
    assert status(token) == 401


def test_the_playground_calls_as_a_client_would(
    h: Deployment, tenant: Tenant, owner: Visitor
) -> None:
    other = h.tenant()
    owner.get("/playground")
    assert tenant.key_id in owner.page
    assert tenant.key not in owner.page
    form = {"model": "sim-model", "protocol": "chat-completions", "prompt": NASTY, "stream": "on"}
    response = owner.post("/playground/call", {**form, "key": tenant.key_id})
    assert response.headers["Content-Type"].startswith("text/plain")
    assert tenant.key not in response.text
    trace = response.headers["x-call-trace"]
    bill = owner.get(f"/playground/cost?trace={trace}").json()
    assert bill["href"] == f"/calls/{h.row(trace)['id']}"
    owner.get("/playground")
    assert owner.post("/playground/call", {**form, "key": other.key_id}).status_code == 404


def test_pages_are_small_and_name_nothing_of_another_host(
    h: Deployment, tenant: Tenant, operator: Visitor
) -> None:
    for _ in range(50):
        chat(tenant)
    account = f"/accounts/{tenant.account}"
    for path in (
        "/",
        account,
        f"{account}/calls",
        f"{account}/keys",
        "/calls",
        "/models",
        f"{account}/budgets",
        f"{account}/usage",
    ):
        page = operator.get(path).text
        named = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
        assert len(named) == 3
        whole = len(page.encode()) + sum(
            len(operator.web.get(operator.base + one).content) for one in named
        )
        assert whole < 100_000, (path, whole)
        assert not re.findall(r'(?:src|href|action)="(?!/|#|\?)', page), path
        assert not re.findall(r"<style|\sstyle=|\son[a-z]+=", page), path
