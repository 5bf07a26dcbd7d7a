"""`/mcp` over HTTP: keys, methods, the six tools (reference 8.5).

What a message may be is `tests/unit/mcp`; official clients are `test_mcp_clients.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gw.api.mcp.knowledge_tools import SOURCELESS, UNREADABLE
from gw.app import MCP_BODY_BYTES_MAX
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.bases import PAGES, imported
from tests.support.rows import each

WIKI = "/api/v1/ext/wiki"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
TEAM = {
    # The same names as in the personal base, and an alias that it has, too.
    "Otters.md": "---\ntitle: Otters of the team\ntags: animals\n---\nSee [[Herons]].\n",
    "Herons.md": "---\ntags: [animals, birds]\naliases: [dam]\n---\nSee [[Otters]] [[Nobody]].\n",
}
QUESTION = "what the otters hold is nobody elses business"


@pytest.fixture(scope="module")
def reader(shared: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with a personal base and one of its account, which no test changes."""
    folder = tmp_path_factory.mktemp("bases")
    tenant = shared.tenant()
    imported(shared, tenant, folder / "own")
    imported(shared, tenant, folder / "team", "--kb", "team", pages=TEAM)
    return tenant


def post(client: Client, value: Any, **headers: str) -> Response:
    """One POST; a header whose value is empty is left out."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    sent = {name: text for name, text in {**HEADERS, **named}.items() if text}
    return client.send("POST", "/mcp", body, headers=sent)


def result(tenant: Tenant, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of one tool call."""
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = post(tenant.client, call)
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json["result"]
    return found


def found(tenant: Tenant, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool found, which is there twice."""
    one = result(tenant, tool, **arguments)
    assert not one["isError"], one
    (text,) = one["content"]
    assert text["type"] == "text"
    assert json.loads(text["text"]) == one["structuredContent"]
    structured: dict[str, Any] = one["structuredContent"]
    return structured


def failure(tenant: Tenant, tool: str, **arguments: Any) -> str:
    """Why a tool found nothing."""
    one = result(tenant, tool, **arguments)
    assert one.keys() == {"content", "isError"}
    assert one["isError"] is True
    (text,) = one["content"]
    sentence: str = text["text"]
    return sentence


def ids(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["id"] for entry in entries]


def test_keys_come_in_two_headers(h: Deployment, reader: Tenant) -> None:
    nobody = Client(h.gateway.url, None)
    for header in ({"x-api-key": reader.key}, {"Authorization": f"Bearer {reader.key}"}):
        assert post(nobody, PING, **header).status == 200
    refused = [
        post(nobody, PING),
        post(nobody, PING, **{"x-alt-api-key": reader.key}),
        nobody.send("POST", f"/mcp?key={reader.key}", b"{}", headers=HEADERS),
        post(nobody, PING, **{"x-api-key": "sk-platform-" + "0" * 64}),
    ]
    for reply in refused:
        assert reply.refusal == (401, "authentication_error", "invalid_api_key")
        assert reply.headers["www-authenticate"] == 'Bearer realm="gateway"'


@each("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_only_post_is_served(reader: Tenant, method: str) -> None:
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": "x"}
    reply = reader.client.send(method, "/mcp", headers=headers)
    assert reply.refusal == (405, "invalid_request_error", "method_not_allowed")
    assert reply.headers["allow"] == "POST"


def test_a_body_has_a_bound(reader: Tenant) -> None:
    fits = json.dumps(PING).encode()
    fits += b" " * (MCP_BODY_BYTES_MAX - len(fits))
    assert post(reader.client, fits).status == 200
    reply = post(reader.client, fits + b" ")
    assert reply.refusal == (413, "invalid_request_error", "request_too_large")


def test_neither_origin_nor_session_matters(reader: Tenant) -> None:
    reply = post(reader.client, PING, Origin="https://evil.example", Mcp_Session_Id="anything")
    assert reply.json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    notified = post(reader.client, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status, notified.body) == (202, b"")


def test_a_search_is_the_one_of_rest_over_all_bases(reader: Tenant) -> None:
    got = found(reader, "search_wiki", q="otters")
    assert {(one["kb_id"], one["id"]) for one in got["results"]} == {
        ("default", "Otters"),
        ("default", "Beavers"),
        ("team", "team/Otters"),
        ("team", "Herons"),
    }
    rest = reader.client.get(f"{WIKI}/search?q=otters").json
    for entry in rest["results"]:
        (same,) = [one for one in got["results"] if one["id"] == entry["id"]]
        # How rare a word is depends on the bases.
        assert {**same, "score": 0} == {**entry, "kb_id": "default", "score": 0}
    assert got["total_hits"] == got["returned"] == 4
    pieces = []
    for offset in range(4):
        window = found(reader, "search_wiki", q="otters", limit=1, offset=offset)
        assert (window["returned"], window["has_more"]) == (1, offset < 3)
        pieces += window["results"]
    assert pieces == got["results"]
    assert found(reader, "search_wiki", q="otters", limit=10**6)["returned"] == 4
    assert found(reader, "search_wiki", q="otters", limit=2.0)["returned"] == 2
    assert found(reader, "search_wiki", q="otters", offset=10**40)["results"] == []
    assert found(reader, "search_wiki", q="& | !")["total_hits"] == 0


def test_a_page_is_the_one_of_rest(reader: Tenant) -> None:
    page = found(reader, "read_page", id="river dog")
    rest = reader.client.get(f"{WIKI}/pages/Otters").json
    assert len(page["body"]) == len(rest["body"]) > 5000
    assert page == {**rest, "body_truncated": False}


def test_pages_come_in_the_order_requested_once_each(reader: Tenant) -> None:
    request = ["team/Otters", "nothing", "zh", " zh ", "River Dog", "Otters", "x/y", ""]
    got = found(reader, "read_pages", ids=request)
    assert ids(got["pages"]) == ["team/Otters", "zh", "Otters"]
    assert got["missing"] == ["nothing", "x/y"]
    many = [f"n{n}" for n in range(25)]
    assert found(reader, "read_pages", ids=[*many, "zh"]) == {"pages": [], "missing": many}


def test_every_id_leads_back_to_its_page(reader: Tenant) -> None:
    listed = found(reader, "list_by_tag", tag="animals")
    assert listed["total"] == 4
    assert [(one["kb_id"], one["id"]) for one in listed["pages"]] == [
        ("default", "Beavers"),
        ("default", "Otters"),
        ("team", "Herons"),
        ("team", "team/Otters"),
    ]
    assert listed["pages"][2].keys() == {"id", "kb_id", "title", "summary", "tags"}
    for entry in listed["pages"]:
        page = found(reader, "read_page", id=entry["id"])
        assert {name: page[name] for name in entry} == entry
    # What is linked keeps to its base, whatever the bases before it have.
    herons = found(reader, "read_page", id="Herons")
    assert herons["outgoing_links"] == [
        {"id": "team/Otters", "resolved": True, "title": "Otters of the team"},
        {"id": "Nobody", "resolved": False, "title": None},
    ]
    # An id of the first base goes before an alias of the second; named exactly it is the alias.
    assert found(reader, "read_page", id="dam")["kb_id"] == "default"
    assert found(reader, "read_page", id="team/DAM")["id"] == "Herons"
    assert found(reader, "read_page", id="default/Otters")["id"] == "Otters"


def test_backlinks_do_not_cross_bases(reader: Tenant) -> None:
    entry = {"id": "Herons", "kb_id": "team", "title": "Herons", "summary": ""}
    assert found(reader, "backlinks", id="team/Otters") == {
        "id": "team/Otters",
        "kb_id": "team",
        "backlinks": [entry],
    }
    own = found(reader, "backlinks", id="river dog")
    assert (own["id"], own["kb_id"], ids(own["backlinks"])) == ("Otters", "default", ["Beavers"])


def test_a_source_is_fetched_by_its_link(h: Deployment, reader: Tenant) -> None:
    source = found(reader, "get_source", id="Otters")
    assert source.keys() == {"r2_key", "filename", "locator", "url", "url_ttl_secs"}
    assert source["url"].startswith(h.gateway.url)
    fetched = Client(h.gateway.url, None).get(source["url"].removeprefix(h.gateway.url))
    assert fetched.body == PAGES["otters.pdf"].encode()
    assert failure(reader, "get_source", id="zh") == SOURCELESS


BAD: list[tuple[str, dict[str, Any]]] = [
    ("search_wiki", {}),
    ("search_wiki", {"q": " "}),
    ("search_wiki", {"q": "x", "limit": 0}),
    ("search_wiki", {"q": "x", "limit": True}),
    ("search_wiki", {"q": "x", "offset": -1}),
    ("read_page", {}),
    ("read_pages", {"ids": []}),
    ("read_pages", {"ids": ["Otters", 5]}),
    ("list_by_tag", {"tag": ""}),
    ("backlinks", {"id": None}),
    ("get_source", {"page": "Otters"}),
]


@each("tool, arguments", BAD)
def test_a_wrong_argument_is_described_in_a_sentence(
    reader: Tenant, tool: str, arguments: dict[str, Any]
) -> None:
    sentence = failure(reader, tool, **arguments)
    assert sentence.startswith("`")
    assert sentence.endswith(".")


def test_what_is_not_readable_is_as_what_is_not_there(h: Deployment, tmp_path: Path) -> None:
    owner, stranger = h.tenant(), h.tenant()
    imported(h, owner, tmp_path / "team", "--kb", "team", pages=TEAM)
    imported(h, owner, tmp_path / "team", "--kb", "secret", "--restricted", pages=TEAM)
    shared = f"{owner.account}:team"
    for name in ("Herons", "team/Herons", "secret/Herons", f"{shared}/Herons", "a\0b", "/", "x/"):
        for tool in ("read_page", "backlinks", "get_source"):
            assert failure(stranger, tool, id=name) == UNREADABLE
        assert found(stranger, "read_pages", ids=[name])["missing"] == [name]
    assert failure(owner, "read_page", id="secret/Herons") == UNREADABLE
    assert found(stranger, "search_wiki", q="otters")["total_hits"] == 0
    assert found(stranger, "list_by_tag", tag="birds")["total"] == 0
    of = ("--account", owner.account, "--kb", "team")
    h.gw("kb", "grant", *of, "--to-account", stranger.account)
    assert found(stranger, "read_page", id="Herons")["kb_id"] == shared
    assert found(stranger, "read_page", id=f"{shared}/dam")["id"] == "Herons"


def test_operators_see_counts_and_no_text(h: Deployment, reader: Tenant) -> None:
    admin = Admin(h.gateway.admin_url)
    before = admin.page()
    found(reader, "search_wiki", q=QUESTION)
    failure(reader, "search_wiki", q="")
    post(reader.client, {**PING, "method": QUESTION})
    post(Client(h.gateway.url, None), PING)
    post(reader.client, b"{" + QUESTION.encode())
    after = admin.page()

    def grown(name: str, *values: str) -> float:
        return after.series(name).get(values, 0) - before.series(name).get(values, 0)

    # Values of `method`, `outcome` and `tool`.
    requests = "gw_mcp_requests_total"
    assert grown(requests, "tools/call", "ok", "search_wiki") == 1
    assert grown(requests, "tools/call", "tool_error", "search_wiki") == 1
    assert grown(requests, "other", "refused", "none") == 3
    assert grown("gw_mcp_seconds_count", "tools/call", "search_wiki") == 2
    assert grown("gw_kb_searches_total", "any", "mcp") == 1

    def codes() -> list[int]:
        return [event["code"] for event in h.events("mcp.error", account=reader.account)]

    until(lambda: codes()[-2:] == [-32601, -32700], what="a line of each")
    assert not [line for line in h.gateway.lines if QUESTION in line]
