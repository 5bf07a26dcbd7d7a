"""Knowledge bases beside other work: imports beside readers of all processes, searches, calls."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.client import Client, Reply
from tests.support.house import House, house
from tests.support.scrape import Admin
from tests.support.tenants import Tenant
from tests.support.transactions import transaction

pytestmark = pytest.mark.long

WIKI = "/api/v1/ext/wiki"
PROCESSES = 2
READS = 12  # each on a connection of its own, so that every process has some
PAGES = 40
# More than the connections that searches have.
SEARCHES = 5


@pytest.fixture
def many(database_url: str, tmp_path: Path) -> Iterator[House]:
    """A house whose gateway is several processes."""
    with house(database_url, tmp_path, processes=PROCESSES) as built:
        yield built


def search(tenant: Tenant, q: str, **more: Any) -> Reply:
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


def test_readers_see_the_old_base_or_the_new_one(many: House, tmp_path: Path) -> None:
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


def test_a_search_that_takes_too_long_is_ended_and_told(h: House, tmp_path: Path) -> None:
    tenant = h.tenant()
    write_version(tmp_path / "pages", "one", 3)
    h.gw("kb", "import", "--account", tenant.account, str(tmp_path / "pages"))
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE kb_postings IN ACCESS EXCLUSIVE MODE")
        assert search(tenant, "version").refusal == (503, "server_error", "no_channel_available")
    assert search(tenant, "version").status == 200
    assert Client(h.gateway.url, tenant.key).get(f"{WIKI}/kbs").status == 200
