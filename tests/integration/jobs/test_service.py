"""Jobs on a real PostgreSQL: exchanges, service, retention, verification, plans."""

from typing import Any

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.service import Jobs, new_job_id
from actors.jobs.state_machine import Cancel, End, Watch, observe
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.rows import encode_void
from metrics.prometheus import Metrics
from tests.integration.actors.process import ledger_of
from tests.integration.jobs.polling import NEVER, watched
from tests.integration.money import ACCOUNT, open_account
from tests.support.jobs import FILM, acceptance, new_job, polled
from tests.support.logs import logs

MONEY = 100_000_000_000
PRICE = MediaPrice.as_stated({"per_second": "0.1"})


def jobs_of(database: Any, metrics: Metrics | None = None) -> Jobs:
    return Jobs(
        database=database,
        schedule=NEVER,
        deadline_seconds=60.0,
        chance=lambda: 0.5,
        clock=SystemClock(),
        metrics=metrics or Metrics(),
    )


def end_by(seen: Any, kind: Any = "video") -> End:
    end = observe(kind, Watch(), seen, is_overdue=False).end
    assert end is not None
    return end


async def test_lists_are_an_accounts_own_by_kind_and_state_newest_first(database_url: str) -> None:
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        jobs = jobs_of(database)
        made = [await mine.submit(amount=1_000_000_000) for _ in range(5)]
        song = await mine.submit(kind="music", price={"per_generation": "1"}, quantity=1)
        await mine.endings.end(made[1].id, end_by(polled("succeeded")))
        await mine.endings.end(made[3].id, end_by(Cancel()))
        await mine.process.hold(1, job_id="vid_submitting")

        async def listed(**how: Any) -> list[int]:
            found = await jobs.list(ACCOUNT, "video", **{"limit": 30, **how})
            return [[one.id for one in made].index(job.id) for job in found]

        assert await listed() == [4, 3, 2, 1, 0]
        assert await listed(limit=2) == [4, 3]
        assert await listed(before=made[3].id) == [2, 1, 0]
        assert await listed(before=made[3].id, limit=1) == [2]
        assert await listed(before=song.id) == [4, 3, 2, 1, 0]  # which is newer than all of them
        assert await listed(before="vid_none") == []
        assert await listed(states=["succeeded"]) == [1]
        assert await listed(states=["cancelled", "queued"], limit=3) == [4, 3, 2]
        assert await listed(states=[]) == []
        assert await jobs.list("acct_other", "video", limit=30) == []
        assert [job.id for job in await jobs.list(ACCOUNT, "music", limit=30)] == [song.id]


async def test_list_is_in_the_order_of_the_times_that_it_shows(database_url: str) -> None:
    """The submission that came first may be the later one to have its hold."""
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        now = SystemClock().now()
        for ago in (100.0, 90.0, 95.0, 90.5):
            await mine.submit(submitted_at=now - ago)
        shown = [
            one.submitted_at for one in await jobs_of(database).list(ACCOUNT, "video", limit=9)
        ]
        assert shown == sorted(shown, reverse=True)
        newest = await store.read_newest(database, limit=9)
        assert [one.submitted_at for one in newest] == shown


async def test_job_is_read_by_its_account_and_kind_alone(database_url: str) -> None:
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        jobs = jobs_of(database)
        job = await mine.submit(request={"name": "Ann"})
        found = await jobs.read(ACCOUNT, "video", job.id)
        assert found is not None
        assert (found.request, found.state) == ({"name": "Ann"}, "queued")
        assert await jobs.read("acct_other", "video", job.id) is None
        assert await jobs.read(ACCOUNT, "music", job.id) is None
        assert await jobs.read(ACCOUNT, "video", "vid_none") is None
        await mine.endings.end(job.id, end_by(polled("succeeded")))
        await jobs.renew_result(job.id, FILM.__class__(url="https://new", expires_at=9.0))
        renewed = await jobs.read(ACCOUNT, "video", job.id)
        assert renewed is not None
        assert renewed.result == FILM.__class__(url="https://new", expires_at=9.0)


async def test_ended_job_is_deleted_once_and_an_open_one_not(database_url: str) -> None:
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        jobs = jobs_of(database)
        job = await mine.submit()
        assert not await jobs.delete(ACCOUNT, "video", job.id)
        await mine.endings.end(job.id, end_by(Cancel()))
        assert not await jobs.delete("acct_other", "video", job.id)
        assert not await jobs.delete(ACCOUNT, "avatar", job.id)
        assert await jobs.delete(ACCOUNT, "video", job.id)
        assert not await jobs.delete(ACCOUNT, "video", job.id)
        assert await jobs.read(ACCOUNT, "video", job.id) is None
        assert await jobs.list(ACCOUNT, "video", limit=30) == []
        assert (await mine.read(job.id)).state == "cancelled"  # an operator still sees it


class Flaky:
    """A database that loses its connection around a few statements: before, or after, in turns."""

    def __init__(self, database: Database, losses: int) -> None:
        self._database = database
        self.losses = losses

    async def fetch_all(self, sql: str, params: Any = ()) -> Any:
        self.losses -= 1
        if self.losses >= 0 and self.losses % 2:
            raise StoreUnavailable("lost before the statement")
        rows = await self._database.fetch_all(sql, params)
        if self.losses >= 0:
            raise StoreUnavailable("lost after the statement")
        return rows


@logs("task_not_stored")
async def test_acceptance_is_stored_however_often_the_database_is_lost(database_url: str) -> None:
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        jobs = jobs_of(Flaky(database, losses=4))
        job_id = new_job_id("video")
        job = jobs.new_job("video", price=PRICE, quantity=5000)
        facts = await mine.process.hold(500_000_000, job_id=job_id, job=job)
        assert await jobs.accepted(facts, acceptance("up_1"))
        found = await store.read(database, job_id, account_id=ACCOUNT)
        assert found is not None
        assert (found.state, found.upstream_id, found.price) == ("queued", "up_1", PRICE.stated)
        assert await store.read_in_flight(database) == {"video": 1}
        assert found.deadline_at - found.submitted_at < 61.0


@logs("task_submit_unknown")
async def test_acceptance_that_recovery_has_overtaken_is_of_unknown_outcome(
    database_url: str,
) -> None:
    metrics = Metrics()
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        job_id = new_job_id("video")
        facts = await mine.process.hold(500, job_id=job_id, job=new_job())
        mine.process.writer.tell(encode_void(facts))
        await mine.process.wallets.settled(ACCOUNT)
        assert not await jobs_of(database, metrics).accepted(facts, acceptance("up_1"))
        page = metrics.render("")[0].decode()
        assert 'gw_task_submit_unknown_total{channel="film-a"} 1.0' in page
        assert (await mine.read(job_id)).state == "failed"


async def test_other_accounts_jobs_are_not_in_the_way(database_url: str) -> None:
    async with ledger_of(database_url, MONEY) as database, watched(database_url) as mine:
        await open_account(database, MONEY, "acct_b", "key_b")
        job = await mine.submit()
        assert [found.id for found in await store.read_newest(database)] == [job.id]
        assert await store.read_newest(database, account_id="acct_b") == []
