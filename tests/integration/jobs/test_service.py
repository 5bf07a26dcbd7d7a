"""Jobs on a real PostgreSQL: exchanges, service, retention, verification, plans."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from actors import partitions
from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.service import Jobs, new_job_id
from actors.jobs.state_machine import Cancel, End, Gone, TimedOut, Unreachable, Watch, observe
from actors.jobs.store import SQL
from actors.jobs.upstreams import JobUpstreams
from actors.partitions import Partitions
from actors.process import SQL as PROCESSES
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.wallet.ledger import SQL as LEDGER
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.rows import encode_void
from actors.wallet.verify import verify
from channels.http.client import HttpClient
from channels.media.replies import NotFound, Polled, Trouble, Unusable
from channels.registry import ChannelSpec
from metrics.prometheus import Metrics
from tests.integration.actors.process import Process, ledger_of, process
from tests.integration.jobs.polling import NEVER, Watched, watched
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import ACCOUNT, open_account
from tests.support.clock import FakeClock
from tests.support.jobs import CHANNEL, FILM, acceptance, new_job, polled
from tests.support.logs import logs
from tests.support.specs import make_channel
from tests.unit.simulator.client import KEY
from tests.unit.simulator.hands import Hands, hands

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


# --- One poll and one cancellation over a real socket, whatever the upstream does ---

BODY_BYTES_MAX = 300_000
EXCHANGED_FILM = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": 4}


@dataclass(frozen=True)
class At:
    """Where a job is made."""

    upstream_id: str
    channel_id: str = "film"
    upstream_protocol: str = "videos"
    kind: Any = "video"


@asynccontextmanager
async def upstreams(
    seconds: float = 5.0, **changes: Any
) -> AsyncIterator[tuple[JobUpstreams, Hands]]:
    """Jobs of a channel that the simulator answers."""
    http = HttpClient(connect_seconds=5.0)
    try:
        async with hands() as h:
            spec = make_channel("film", api_key=KEY, protocols=frozenset({"videos"}))
            spec = replace(spec, **{"base_url": h.simulator.base_url, **changes})
            channels: dict[str, ChannelSpec] = {"film": spec}
            yield (
                JobUpstreams(
                    http=http,
                    channels=lambda: channels,
                    seconds=seconds,
                    body_bytes_max=BODY_BYTES_MAX,
                    clock=SystemClock(),
                ),
                h,
            )
    finally:
        await http.close()


async def test_poll_tells_how_a_task_is_and_a_cancellation_ends_it() -> None:
    async with upstreams() as (jobs, h):
        task = (await h.submit("/v1/videos/generations", EXCHANGED_FILM, task_seconds=100))["id"]
        seen = await jobs.poll(At(task))
        assert isinstance(seen, Polled)
        assert seen.state in ("queued", "running")
        assert await jobs.cancel(At(task))
        seen = await jobs.poll(At(task))
        assert isinstance(seen, Polled)
        assert seen.state == "cancelled"


async def test_cancellation_that_the_upstream_refuses_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with upstreams() as (jobs, _):
        assert not await jobs.cancel(At("vid_none"))
    logged = [one for one in caplog.records if "task_not_cancelled_upstream" in vars(one).values()]
    assert len(logged) == 1


async def test_poll_of_what_is_not_there() -> None:
    async with upstreams() as (jobs, _):
        assert isinstance(await jobs.poll(At("vid_none")), NotFound)
        assert isinstance(await jobs.poll(At("vid_1", channel_id="gone")), Gone)
        assert not await jobs.cancel(At("vid_1", channel_id="gone"))


async def test_upstream_that_does_not_answer_is_given_up_in_time() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with upstreams(0.05, base_url=url) as (jobs, _):
        assert await jobs.poll(At("vid_1")) == TimedOut()
        assert not await jobs.cancel(At("vid_1"))
    server.close()


async def test_upstream_that_cannot_be_reached_or_fails_says_nothing() -> None:
    async with upstreams(base_url="http://127.0.0.1:1") as (jobs, _):
        assert isinstance(await jobs.poll(At("vid_1")), Unreachable)
        assert not await jobs.cancel(At("vid_1"))
    async with upstreams() as (jobs, h):
        task = (
            await h.submit(
                "/v1/videos/generations", EXCHANGED_FILM, task_seconds=9, poll={"status": 503}
            )
        )["id"]
        assert isinstance(await jobs.poll(At(task)), Trouble)


async def test_answer_is_read_up_to_the_limit_of_bodies_and_cannot_be_used_beyond() -> None:
    sizes = iter((BODY_BYTES_MAX, BODY_BYTES_MAX + 1))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = next(sizes)
        body = b'{"status": "running", "log": "%b"}'
        body = body.replace(b"%b", b"x" * (size - len(body) + 2))
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size
        writer.write(head + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with upstreams(base_url=url) as (jobs, _):
            assert isinstance(await jobs.poll(At("vid_1")), Polled)
            assert await jobs.poll(At("vid_1")) == Unusable(reason="too large")


# --- Jobs go with the months of the call log that are not kept; what they cost stays ---

MONTHS = 3
OLD = "2024-03-15 12:00:00+00"
AVATAR = "UPDATE jobs SET kind = 'avatar' WHERE id = %s"
COPY = (
    "INSERT INTO media_copies (id, job_id, position, store, channel_id, wire, upstream_id,"
    " content_type, state) VALUES (%s || '-0', %s, 0, 'local', 'one', 'videos', 'u', 'video/mp4',"
    " %s::media_copy_state)"
)


def keeper(database: Database, months: int | None) -> Partitions:
    clock = FakeClock()
    clock.advance(datetime.now(UTC).timestamp() - clock.now())
    return Partitions(
        database=database, retention_months=lambda: months, clock=clock, metrics=Metrics()
    )


async def kept_jobs_of(mine: Process) -> set[str]:
    return {name for (name,) in await mine.database.fetch_all("SELECT id FROM jobs")}


async def age(mine: Process, *names: str) -> None:
    """Have these jobs, and their rows, be of a month long ago."""
    await mine.database.execute(
        "UPDATE jobs SET created_at = %s, submitted_at = %s, ended_at = %s WHERE id = ANY (%s)",
        (OLD, OLD, OLD, list(names)),
    )


async def make(mine: Process, names: Sequence[str]) -> None:
    await open_account(mine.database, 10_000_000_000)
    for name in names:
        await ended(mine, name, failed() if name == "vid_failed" else made("https://a.example/f"))


async def test_old_jobs_are_purged_and_their_money_is_not(database_url: str) -> None:
    old = ("vid_made", "vid_failed", "ava_deleted", "vid_dropped", "vid_kept", "ava_ready")
    async with process(database_url) as mine:
        await make(mine, (*old, "vid_young"))
        await mine.hold(10, job_id="vid_open")
        for name in ("ava_ready", "ava_deleted"):
            await mine.database.execute(AVATAR, (name,))
        await mine.database.execute("UPDATE jobs SET deleted_at = now() WHERE id = 'ava_deleted'")
        for name, state in (("vid_kept", "kept"), ("vid_dropped", "dropped")):
            await mine.database.execute(COPY, (name, name, state))
        await age(mine, *old)
        await mine.database.execute("UPDATE jobs SET created_at = %s WHERE id = 'vid_open'", (OLD,))
        sums = "SELECT count(*), sum(amount_nano_usd) FROM entries"
        before = await mine.database.fetch_one(sums)
        await keeper(mine.database, None).round()
        assert await kept_jobs_of(mine) == {*old, "vid_young", "vid_open"}
        await keeper(mine.database, MONTHS).round()
        assert await kept_jobs_of(mine) == {"ava_ready", "vid_kept", "vid_young", "vid_open"}
        copies = await mine.database.fetch_all("SELECT job_id FROM media_copies")
        assert copies == [("vid_kept",)]
        assert await mine.database.fetch_one(sums) == before


async def test_a_job_whose_answer_is_replayed_stays(database_url: str) -> None:
    async with process(database_url) as mine:
        await make(mine, ["vid_made"])
        await age(mine, "vid_made")
        await mine.database.execute(
            "INSERT INTO idempotency (account_id, key, call_id, fingerprint, state, expires_at)"
            " SELECT account_id, 'k', call_id, '', 'too_large', now() + interval '1 hour' FROM jobs"
        )
        await keeper(mine.database, MONTHS).round()
        assert await kept_jobs_of(mine) == {"vid_made"}
        assert (await verify(mine.database)).faults == []


async def test_a_round_deletes_so_many_and_leaves_the_rest_to_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "PURGED_JOBS_MAX", 2)
    monkeypatch.setattr(partitions, "PURGES_MAX", 2)
    names = [f"vid_{number}" for number in range(5)]
    async with process(database_url) as mine:
        await make(mine, names)
        await age(mine, *names)
        left = []
        for _ in range(2):
            await keeper(mine.database, MONTHS).round()
            left.append(len(await kept_jobs_of(mine)))
        assert left == [1, 0]
        assert (await verify(mine.database)).faults == []


POLL, ROW = "job_has_its_hold_and_its_poll", "job_agrees_with_its_row"
DUE = "poll_is_due"
# Of a job that is being submitted, one that is open, one that was cancelled, one that succeeded.
INCONSISTENCIES = [
    ("DELETE FROM job_polls", POLL),
    (
        "INSERT INTO job_polls SELECT 'vid_none', kind, channel_id, now(), NULL, now() FROM jobs"
        " WHERE state = 'queued'",
        POLL,
    ),
    ("UPDATE job_polls SET job_id = (SELECT id FROM jobs WHERE state = 'succeeded')", POLL),
    ("UPDATE jobs SET state = 'failed', ended_at = now() WHERE state = 'queued'", POLL),
    ("UPDATE jobs SET state = 'running', ended_at = NULL WHERE state = 'cancelled'", POLL),
    ("UPDATE holds SET process_id = NULL", POLL),
    ("UPDATE holds SET process_id = 'proc_a'", POLL),
    ("DELETE FROM holds WHERE process_id IS NULL", POLL),
    ("UPDATE job_polls SET due_at = 'infinity'", DUE),
    ("UPDATE job_polls SET deadline_at = 'infinity', due_at = 'infinity'", DUE),
    (
        "WITH job AS (UPDATE jobs SET deadline_at = 'infinity')"
        " UPDATE job_polls SET deadline_at = 'infinity', due_at = 'infinity'",
        DUE,
    ),
    ("UPDATE jobs SET key_id = 'other'", "call_is_of_one_key"),
    ("UPDATE jobs SET state = 'expired' WHERE state = 'succeeded'", ROW),
    ("UPDATE jobs SET state = 'succeeded' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = 'other' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = NULL WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET result = NULL WHERE state = 'succeeded'", ROW),
    ("UPDATE call_logs SET status = 'success' WHERE status = 'interrupted'", ROW),
    ("UPDATE call_logs SET task_id = NULL", ROW),
    ("DELETE FROM call_logs WHERE status = 'interrupted'", ROW),
]


async def made_jobs(mine: Watched) -> None:
    """A job of each sort."""
    for seen in (polled("succeeded"), Cancel()):
        job = await mine.submit()
        end = observe("video", Watch(), seen, is_overdue=False).end
        assert end is not None
        assert await mine.endings.end(job.id, end) is not None
    await mine.submit()
    await mine.process.hold(10, job_id="vid_submitting")


@pytest.mark.parametrize(("inconsistency", "invariant"), INCONSISTENCIES)
async def test_what_disagrees_is_found(
    inconsistency: str, invariant: str, database_url: str
) -> None:
    async with watched(database_url, schedule=NEVER) as mine:
        await open_account(mine.database, 10_000_000_000)
        await made_jobs(mine)
        assert (await verify(mine.database)).faults == []
        assert await mine.database.execute(inconsistency) > 0
        found = {fault["invariant"] for fault in (await verify(mine.database)).faults}
        assert invariant in found


async def test_job_that_was_never_accepted_needs_no_row(database_url: str) -> None:
    """Its call has one of its own, which says what its client was told."""
    async with process(database_url, "proc_a") as mine:
        await open_account(mine.database, 10_000)
        facts = await mine.hold(100, job_id="vid_1")
        mine.writer.tell(encode_void(facts))
        await mine.wallets.settled(facts.account_id)
        row = await mine.database.fetch_one("SELECT state::text, error_code FROM jobs")
        assert row == ("failed", "not_submitted")
        assert (await verify(mine.database)).faults == []


OPEN, ACCOUNTS = 100_000, 50
FILL = f"""
INSERT INTO jobs (id, call_id, account_id, kind, state, key_id, protocol, model, request, billing,
    submitted_at, deadline_at, channel_id, wire, upstream_model, upstream_id, submission,
    created_at)
SELECT 'vid_' || n, md5('call' || n)::uuid, 'acct_' || n % {ACCOUNTS}, 'video', 'queued', 'key_1',
    'videos', 'film', '{{}}', '{{}}', now(), now() + interval '1 day', '{CHANNEL}', 'videos',
    'film', 'up_' || n, '{{}}', now() - make_interval(secs => n)
FROM generate_series(1, {OPEN}) n;
INSERT INTO job_polls (job_id, kind, channel_id, due_at, deadline_at)
SELECT id, kind, channel_id, now() - make_interval(secs => random() * 60), deadline_at FROM jobs;
INSERT INTO holds (call_id, account_id, key_id, amount_nano_usd, call, job_id)
SELECT call_id, account_id, key_id, 10, '{{}}', id FROM jobs;
INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call)
SELECT md5('plain' || n)::uuid, 'acct_1', 'key_1', 'proc_a', 10, '{{}}'
FROM generate_series(1, 50) n;
"""

# What each statement may read at most, in pages of 8 kB: what it is about, and the way there.
CLAIM = {"claim_id": "p/1", "seconds": 15.0, "limit": 32}
STATEMENTS: list[tuple[str, str, Any, int]] = [
    ("claim", SQL["claim"], {**CLAIM, "channels": [CHANNEL, "other"], "counts": [32, 32]}, 2000),
    ("gone", SQL["gone_channels"], ([],), 20),
    (
        "book",
        SQL["book"],
        {
            "ids": [f"vid_{n}" for n in range(1, 33)],
            "claim_ids": ["p/0"] * 32,
            "pauses": [15.0] * 32,
            "failures": [0] * 32,
            "not_found": [0] * 32,
            "unknown": [False] * 32,
            "states": ["running"] * 32,
            "progress": [1] * 32,
        },
        500,
    ),
    (
        "of_account",
        SQL["of_account"],
        {
            "account": "acct_1",
            "kind": "video",
            "states": ["queued", "running", "succeeded", "failed"],
            "limit": 100,
            "before": None,
        },
        800,
    ),
    ("quiet", SQL["quiet"], (0.25, [CHANNEL, "other"]), 150),
    ("open", SQL["open"], ("vid_77",), 30),
    (
        "newest",
        SQL["newest"],
        {"account": None, "kind": None, "state": None, "before": None, "limit": 100},
        300,
    ),
    ("holds_of", PROCESSES["holds_of"], ("proc_a",), 80),
    ("old_holds_of", PROCESSES["old_holds_of"], ("proc_a", 60.0), 80),
    ("orphans", PROCESSES["orphans"], (10.0,), 80),
    ("summary", LEDGER["holds_summary"], (), 80),
]


async def fill(database: Database) -> None:
    await database.execute(FILL)
    await database.execute("ANALYZE jobs; ANALYZE job_polls; ANALYZE holds")


async def pages(database: Database, sql: str, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
    """How many pages a statement reads, run once; it leaves nothing behind."""
    session = await database.session()
    try:
        await session.execute("BEGIN")
        plan = await session.fetch_all(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {sql}", params)
        await session.execute("ROLLBACK")
    finally:
        await session.close()
    text = "\n".join(line for (line,) in plan)
    assert not re.search(r"Seq Scan on (jobs|job_polls|holds)\b", text), text
    top = re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", text)
    assert top is not None, text
    return sum(int(count or 0) for count in top.groups())


async def test_statements_read_what_they_are_about_and_no_table_as_a_whole(
    database_url: str,
) -> None:
    async with Database(database_url, statement_seconds=300.0) as database:
        await fill(database)
        read = {name: await pages(database, sql, params) for name, sql, params, _ in STATEMENTS}
    most = {name: limit for name, *_, limit in STATEMENTS}
    assert {name: count for name, count in read.items() if count > most[name]} == {}, read
