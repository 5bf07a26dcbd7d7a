"""Source documents in a bucket, against a server that speaks S3 and checks signatures."""

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from actors.media_store.bucket import BucketFault, S3Client
from actors.store import connection
from gw.knowledge import importing
from gw.knowledge.bucket_sources import BucketSources
from gw.knowledge.removal import CLEANED_EVERY_SECONDS, clean_up, keep_clean
from gw.knowledge.sources import Sources, r2_key
from loadtests.rig.client import Client
from metrics.prometheus import Metrics
from tests.integration.cli.command import Gw
from tests.integration.knowledge.importing import bases_in
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.logs import logs
from tests.support.s3 import StorageServer, running_storage

pytestmark = pytest.mark.long

SHA = "ab" * 32
NAME = r2_key("acct_one", SHA, "Ünï 文书.pdf")


@pytest.fixture(scope="module")
def storage() -> Iterator[StorageServer]:
    with running_storage() as running:
        yield running


def written(folder: Path, text: str = "%PDF otters") -> Path:
    path = folder / "source.pdf"
    path.write_text(text)
    return path


def test_a_source_is_stored_once_and_fetched_by_a_link(
    storage: StorageServer, tmp_path: Path
) -> None:
    sources = BucketSources(storage.spec)
    sources.put(NAME, written(tmp_path), SHA)
    sources.put(NAME, written(tmp_path, "not again: its name says what it holds"), SHA)
    sources.fetch(NAME, tmp_path / "copy.pdf")
    assert (tmp_path / "copy.pdf").read_text() == "%PDF otters"
    parts = urlsplit(sources.link(NAME, seconds=3600))
    query = parse_qs(parts.query)
    assert unquote(parts.path) == f"/{storage.spec.bucket}/{storage.spec.prefix}{NAME}"
    assert query["X-Amz-Expires"] == ["3600"]
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["response-content-disposition"][0].startswith("attachment; filename*=UTF-8''")
    with storage.without_keys():
        reply = Client(storage.spec.endpoint, None).get(f"{parts.path}?{parts.query}")
    assert (reply.status, reply.body) == (200, b"%PDF otters")


def test_an_account_keeps_what_its_pages_name(storage: StorageServer, tmp_path: Path) -> None:
    sources = BucketSources(storage.spec)
    mine = [r2_key("acct_two", SHA, f"{n}.pdf") for n in range(3)]
    other = r2_key("acct_twofold", SHA, "0.pdf")
    for name in (*mine, other):
        sources.put(name, written(tmp_path), SHA)
    sources.keep_only("acct_two", {mine[1]})
    for name in (mine[0], mine[2]):
        with pytest.raises(BucketFault, match="get_object"):
            sources.fetch(name, tmp_path / "copy.pdf")
    for name in (mine[1], other):
        sources.fetch(name, tmp_path / "copy.pdf")


def test_a_storage_that_refuses_is_an_error(storage: StorageServer, tmp_path: Path) -> None:
    sources = BucketSources(replace(storage.spec, secret_key="wrong" * 8))
    with pytest.raises(OSError, match="head_object: 403"):
        sources.put(NAME, written(tmp_path), SHA)
    absent = BucketSources(replace(storage.spec, endpoint="http://127.0.0.1:9"))
    with pytest.raises(BucketFault, match="EndpointConnectionError"):
        absent.put(NAME, written(tmp_path), SHA)


def test_an_import_into_a_bucket_is_all_or_nothing(
    gw: Gw, storage: StorageServer, tmp_path: Path
) -> None:
    account = gw.run_json("account", "create", "Ann")["id"]
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "Otters.md").write_text("---\nsource: otters.pdf\n---\nThey hold hands.\n")
    (folder / "otters.pdf").write_text("%PDF otters")
    into = ("kb", "import", "--account", account, str(folder))
    local = gw.config.read_text()
    spec = storage.spec
    keys = f"bucket: {spec.bucket}, prefix: kept/, region: {spec.region}"
    for secret_key in ("wrong" * 8, spec.secret_key):
        gw.config.write_text(
            f"{local}kb_store: {{kind: s3, {keys}, endpoint: {spec.endpoint!r},"
            f" access_key: {spec.access_key}, secret_key: {secret_key!r}}}\n"
        )
        if secret_key != spec.secret_key:
            assert gw.refuses(*into)[0] == "storage_failed"
            assert gw.run_json("kb", "show", "--account", account)["pages"] == 0
    assert gw.run_json(*into)["sources"] == 1
    out = tmp_path / "out"
    assert gw.run_json("kb", "export", "--account", account, str(out))["pages"] == 1
    assert (out / "otters.pdf").read_text() == "%PDF otters"
    gw.run_json("kb", "remove", "--account", account, "--page", "Otters")
    bucket = S3Client(replace(spec, prefix="kept/"), connections=1)
    assert list(bucket.keys(f"kb/{account}/")) == []


class Unlisted(Sources):
    """Whose clean-up is refused, as where a bucket may not be listed."""

    refuses = True

    def keep_only(self, account_id: str, names: Collection[str]) -> None:
        if self.refuses:
            raise BucketFault("list_objects_v2", "AccessDenied")
        super().keep_only(account_id, names)


@logs("kb_sources_left")
async def test_clean_up_that_fails_is_a_warning_and_made_again_later(
    database_url: str, tmp_path: Path
) -> None:
    clock, metrics, sources = FakeClock(), Metrics(), Unlisted(tmp_path / "sources")
    async with bases_in(database_url, tmp_path) as bases:
        account = bases.account_id
        old = sources.path(r2_key(account, SHA, "old.pdf"))
        sources.put(r2_key(account, SHA, "old.pdf"), written(tmp_path), SHA)
        assert (await bases.become({"Otters": "They hold hands."})).added == 1
        (warning,) = await clean_up(bases.database, sources, account)
        assert "AccessDenied" in warning
        keeping = asyncio.ensure_future(keep_clean(bases.database, sources, clock, metrics))
        try:
            for left in (1, 0):
                await eventually(lambda: clock.sleepers == 1, what="the pause")
                sources.refuses = bool(left)
                clock.advance(CLEANED_EVERY_SECONDS)
                await eventually(lambda: clock.sleepers == 1, what="the next pause")
                assert f"gw_stray_source_accounts {left}.0" in metrics.render("")[0].decode()
                assert old.exists() == bool(left)
        finally:
            keeping.cancel()
        assert await bases.database.fetch_all("SELECT FROM kb_unclean") == []


def test_sources_in_a_folder_are_their_owners_alone(tmp_path: Path) -> None:
    sources = Sources(tmp_path / "sources")
    for _ in range(2):
        sources.put(NAME, written(tmp_path), SHA)
        path = sources.path(NAME)
        assert path.stat().st_mode & 0o777 == 0o600
        for folder in path.relative_to(tmp_path).parents[:-1]:
            assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
            (tmp_path / folder).chmod(0o755)
        path.chmod(0o644)


async def test_an_import_may_be_long_between_two_statements(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_IN_TRANSACTION_MS", 100)
    monkeypatch.setattr(importing, "_store_sources", lambda *given: time.sleep(0.4))
    async with bases_in(database_url, tmp_path) as bases:
        assert (await bases.become({"page": "# Page"})).added == 1
