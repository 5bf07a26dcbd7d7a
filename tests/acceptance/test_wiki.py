"""Knowledge bases over REST: who reads what, pages, search, sources (reference 8.3)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from gw.keys.secret import Secret
from gw.knowledge.sources import SourceLinks
from loadtests.rig.client import Client
from loadtests.rig.deployment import SECRET, Deployment, deployment
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from tests.acceptance.bases import imported
from tests.support.rows import each

WIKI = "/api/v1/ext/wiki"
NOT_FOUND = (404, "invalid_request_error", "not_found")


@pytest.fixture
def reader(h: Deployment, tmp_path: Path) -> Tenant:
    """A tenant with a personal base."""
    tenant = h.tenant()
    imported(h, tenant, tmp_path)
    return tenant


def get(tenant: Tenant, path: str, **query: object) -> Response:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return tenant.client.get(f"{WIKI}{path}?{text}")


def found(tenant: Tenant, q: str, **more: object) -> list[str]:
    reply = get(tenant, "/search", q=q, **more)
    assert reply.status == 200, reply
    assert reply.json["query"] == q
    return [hit["id"] for hit in reply.json["results"]]


@each("query", ["q=%20", "q=%ff", f"q={'x' * 501}", "q=x&limit=0", "q=x&offset=1.5", "q=x&q=y"])
def test_a_bad_search_is_400(reader: Tenant, query: str) -> None:
    reply = reader.client.get(f"{WIKI}/search?{query}")
    assert reply.refusal == (400, "invalid_request_error", "invalid_request")


def test_a_page_has_every_field(reader: Tenant) -> None:
    page: dict[str, Any] = get(reader, "/pages/river%20dog").json
    assert page["body"].endswith("x" * 5000)
    source = page.pop("source")
    assert source["r2_key"].startswith(f"kb/{reader.account}/")
    assert source["r2_key"].endswith("/otters.pdf")
    del page["body"]
    assert page == {
        "id": "Otters",
        "kb_id": "default",
        "title": "Otters of the river",
        "summary": "Who they are",
        "tags": ["animals", "rivers"],
        "aliases": ["River Dog"],
        "links": ["Beavers", "river DOG", "Nobody"],
        "confidence": "",
        "needs_review": False,
        "outgoing_links": [
            {"id": "Beavers", "resolved": True, "title": "Beavers"},
            {"id": "Otters", "resolved": True, "title": "Otters of the river"},
            {"id": "Nobody", "resolved": False, "title": None},
        ],
    }


def test_pages_tags_and_backlinks(reader: Tenant) -> None:
    pages = get(reader, "/pages", ids="zh,no,Otters,zh,river dog").json["pages"]
    assert [(one["id"], one["body_truncated"]) for one in pages] == [
        ("zh", False),
        ("Otters", True),
    ]
    assert len(pages[1]["body"]) == 4000
    assert get(reader, "/pages", ids="no").json == {"pages": []}
    assert get(reader, "/pages", ids=",").status == 400
    many = ",".join([*(f"n{n}" for n in range(25)), "zh"])
    assert get(reader, "/pages", ids=many).json == {"pages": []}
    tags = get(reader, "/tags").json["tags"]
    assert tags == [{"tag": "animals", "count": 2}, {"tag": "rivers", "count": 1}]
    tagged = get(reader, "/tags/animals").json
    assert (tagged["total"], [one["id"] for one in tagged["pages"]]) == (2, ["Beavers", "Otters"])
    assert get(reader, "/tags/Animals").json["total"] == 0
    back = get(reader, "/pages/Otters/backlinks").json
    assert back.keys() == {"id", "backlinks"}
    assert [one["id"] for one in back["backlinks"]] == ["Beavers"]


def test_a_source_is_fetched_by_its_link_alone(h: Deployment, reader: Tenant) -> None:
    reply = get(reader, "/pages/Otters/source").json
    assert reply["url_ttl_secs"] == 3600
    parts = urlsplit(reply["url"])
    nobody = Client(h.gateway.url, None)
    target = f"{parts.path}?{parts.query}"
    fetched = nobody.get(target)
    assert (fetched.status, fetched.body) == (200, b"%PDF otters")
    assert fetched.headers["content-disposition"].startswith("attachment;")
    assert fetched.headers["x-content-type-options"] == "nosniff"
    head = nobody.send("HEAD", target)
    assert (head.status, head.body) == (200, b"")
    same = ("content-length", "content-disposition", "content-type", "x-content-type-options")
    assert [head.headers[name] for name in same] == [fetched.headers[name] for name in same]
    links = SourceLinks(Secret(SECRET).subkey("gw source links"), public_url="")
    expires = int(parse_qs(parts.query)["expires"][0])
    assert links.link(reply["r2_key"], base_url="", expires_at=expires) == target
    absent = reply["r2_key"].replace("otters.pdf", "others.pdf")
    # Past its time or altered, whether the file exists or not.
    for bad in (
        target[:-1] + "g",
        target.replace("expires=1", "expires=2"),
        target.replace("expires=", "expires=0"),
        target.replace("otters.pdf", "others.pdf"),
        parts.path,
        links.link(reply["r2_key"], base_url="", expires_at=1),
        links.link(absent, base_url="", expires_at=1),
    ):
        assert nobody.get(bad).refusal == (403, "permission_error", "permission_denied"), bad
        assert nobody.send("HEAD", bad).status == 403, bad
    gone = links.link(absent, base_url="", expires_at=expires)
    assert nobody.get(gone).refusal == NOT_FOUND
    assert get(reader, "/pages/zh/source").refusal == NOT_FOUND
    h.gw("kb", "remove", "--account", reader.account, "--page", "Otters")
    assert nobody.get(target).refusal == NOT_FOUND


PATHS = ("/search?q=x&", "/tags?", "/tags/x?", "/pages?ids=zh&", "/pages/zh?", "/pages/zh/source?")


def test_what_is_not_readable_is_as_what_is_not_there(h: Deployment, tmp_path: Path) -> None:
    owner, stranger = h.tenant(), h.tenant()
    ann = h.another(owner, user="ann")
    imported(h, owner, tmp_path, "--kb", "team", "--restricted")
    of = ("--account", owner.account, "--kb", "team")
    shared = f"{owner.account}:team"

    def messages(tenant: Tenant, kb: str) -> set[str]:
        replies = [tenant.client.get(f"{WIKI}{path}kb_id={quote(kb)}") for path in PATHS]
        assert {reply.refusal for reply in replies} == {NOT_FOUND}
        return {reply.error["message"] for reply in replies}

    absent = messages(ann, "nothing")
    assert messages(ann, "team") == messages(stranger, "team") == absent
    assert messages(stranger, shared) == absent
    assert messages(owner, shared) == absent
    h.gw("kb", "grant", *of, "--to-user", "ann")
    assert found(ann, "zebra dam", kb_id="team")
    h.gw("kb", "grant", *of, "--to-account", stranger.account)
    assert get(stranger, "/pages/zh", kb_id=shared).json["kb_id"] == shared
    kbs = stranger.client.get(f"{WIKI}/kbs").json["kbs"]
    assert [(one["kb_id"], one["pages"]) for one in kbs] == [("default", 0), (shared, 6)]
    h.gw("kb", "revoke", *of, "--to-account", stranger.account)
    assert messages(stranger, shared) == absent
    h.gw("kb", "remove", *of)
    assert messages(ann, "team") == absent
    assert found(ann, "zebra") == []  # the personal base is there, and empty


def test_reading_is_free_and_no_agents(h: Deployment, tmp_path: Path) -> None:
    poor = h.tenant(nano_usd=0, rpm=1, concurrency=1)
    imported(h, poor, tmp_path)
    for _ in range(3):
        assert found(poor, "dam")
    agent = h.another(poor, kind="agent", agent_id="agent_x")
    assert agent.client.get(f"{WIKI}/kbs").refusal == (403, "permission_error", "permission_denied")
    assert Client(h.gateway.url, None).get(f"{WIKI}/kbs").status == 401
    assert h.rows(poor) == []


PROCESSES = 2

READS = 12  # each on a connection of its own, so that every process has some

PAGES = 40


@pytest.fixture
def many(database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment whose gateway is several processes."""
    with deployment(database_url, tmp_path, processes=PROCESSES) as built:
        yield built


def search(tenant: Tenant, q: str, **more: Any) -> Response:
    text = "".join(f"&{name}={value}" for name, value in more.items())
    return tenant.client.get(f"{WIKI}/search?q={quote(q)}{text}")


def write_version(folder: Path, word: str, pages: int) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        path.unlink()
    for number in range(pages):
        (folder / f"p{number}.md").write_text(f"---\ntags: [{word}]\n---\nversion {word}\n")


def version(tenant: Tenant) -> tuple[str, int]:
    """The version that one search saw, whole; and of how many pages."""
    reply = search(tenant, "version", limit=50)
    assert reply.status == 200, reply
    words = {hit["snippet"].split()[-1] for hit in reply.json["results"]}
    tags = {tag for hit in reply.json["results"] for tag in hit["tags"]}
    assert len(words) == 1, words
    assert words == tags
    assert reply.json["total_hits"] == reply.json["returned"]
    return words.pop(), reply.json["total_hits"]


@pytest.mark.long
def test_readers_see_the_old_base_or_the_new_one(many: Deployment, tmp_path: Path) -> None:
    h, folder = many, tmp_path / "pages"
    tenant = h.tenant()
    into = ("kb", "import", "--account", tenant.account, str(folder))
    write_version(folder, "one", PAGES)
    h.gw(*into)
    assert {version(tenant) for _ in range(READS)} == {("one", PAGES)}
    write_version(folder, "two", PAGES - 5)
    with ThreadPoolExecutor(1) as pool:
        importing = pool.submit(h.gw, *into)
        seen = [version(tenant)]
        while not importing.done():
            seen.append(version(tenant))
        importing.result()
    assert set(seen) <= {("one", PAGES), ("two", PAGES - 5)}
    # From the next request on, in every process.
    assert {version(tenant) for _ in range(READS)} == {("two", PAGES - 5)}
    page = Admin(h.gateway.admin_url).page()
    serving = {values[0] for values in page.series("gw_kb_searches_total")}
    assert len(serving) == PROCESSES


@pytest.mark.long
def test_a_search_that_takes_too_long_is_ended_and_reported(h: Deployment, tmp_path: Path) -> None:
    tenant = h.tenant()
    write_version(tmp_path / "pages", "one", 3)
    h.gw("kb", "import", "--account", tenant.account, str(tmp_path / "pages"))
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE kb_postings IN ACCESS EXCLUSIVE MODE")
        assert search(tenant, "version").refusal == (503, "server_error", "no_channel_available")
    assert search(tenant, "version").status == 200
    assert Client(h.gateway.url, tenant.key).get(f"{WIKI}/kbs").status == 200
