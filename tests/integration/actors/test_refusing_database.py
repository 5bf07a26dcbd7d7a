"""A whole process, whose database refuses statements for its own state: no part of it ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from actors.changes import heard_by_all
from actors.store.database import Database
from gw.config.load import load_text
from gw.serve import Gateway
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.refusals import rights_revoked
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.transactions import transaction
from tests.integration.cli.test_tasks import begin
from tests.support.aio import eventually
from tests.support.logs import LogWatch

# A whole process and the intervals of its parts.
pytestmark = pytest.mark.long

CONFIGURATION = """\
database_url: {url}
data_dir: {folder}
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
channels:
  - {{id: a, base_url: "http://127.0.0.1:1", api_key: k, protocols: [videos]}}
models:
  - {{id: m, channels: [a], endpoint_type: videos_generations, price: {{per_second: "1"}}}}
"""
# What parts say that look at the database by themselves, and are refused what they do there.
REFUSED = {
    "25006": {"events_not_kept", "tasks_postponed"},
    "42501": {"heartbeat_missed", "tasks_postponed", "recovery_postponed", "events_not_kept"},
    "42883": {"recovery_postponed", "events_not_kept"},
}
# What others may say in the same time, and the upstream of the job.
ALLOWED = (
    *("database_refused", "database_lost", "listener_lost"),
    *("heartbeat_missed", "tasks_postponed", "recovery_postponed", "events_not_kept"),
    *("partitions_postponed", "months_not_dropped", "budgets_not_purged", "webhooks_postponed"),
    *("kb_clean_up_postponed", "question_unanswered", "neighbours_unanswered"),
    *("channel_orders_unread", "task_poll_failed", "overload_began", "overload_ended"),
)
RENAMED = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT p.oid::regprocedure AS name, p.proname AS plain FROM pg_proc p
        WHERE pronamespace = 'public'::regnamespace AND p.proname LIKE '%{before}'
            AND p.prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('ALTER FUNCTION %s RENAME TO %I', one.name,
            left(one.plain, length(one.plain) - length('{before}')) || '{after}');
    END LOOP;
END $$
"""


@contextmanager
def read_only(postgres: PostgresForTests, url: str) -> Iterator[None]:
    """Connections are lost, and new ones only read: a demoted primary behind the same address."""
    change = "ALTER DATABASE {} %s default_transaction_read_only"
    with postgres.away(url):
        postgres.change(url, f"{change % 'SET'} = on")
    try:
        yield
    finally:
        postgres.change(url, change % "RESET")


@contextmanager
def functions_away(url: str) -> Iterator[None]:
    """No function of the schema is there."""
    with transaction(url) as cursor:
        cursor.execute(RENAMED.format(before="", after="_away"))
    try:
        yield
    finally:
        with transaction(url) as cursor:
            cursor.execute(RENAMED.format(before="_away", after=""))


@asynccontextmanager
async def serving(url: str, folder: Path) -> AsyncIterator[Gateway]:
    text = CONFIGURATION.format(url=json.dumps(url), folder=folder / "var")
    gateway = Gateway(load_text(text, {}, source=folder / "gw.yaml"), {})
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


async def ready(gateway: Gateway) -> Response:
    return await asyncio.to_thread(Admin(gateway.admin_url).get, "/readyz")


async def works(gateway: Gateway, url: str) -> None:
    """It becomes ready, hears of changes and replies, and polls the job."""

    async def is_ready() -> bool:
        return (await ready(gateway)).status == 200

    await eventually(is_ready, what="a process that is ready")
    async with Database(url) as database:
        assert await heard_by_all(database, token="t")
        due = "UPDATE job_polls SET due_at = now(), leased_by = NULL RETURNING polls"
        ((before,),) = await database.fetch_all(due)

        async def is_polled() -> bool:
            ((polls,),) = await database.fetch_all("SELECT polls FROM job_polls")
            return bool(polls > before)

        await eventually(is_polled, what="a poll of the job")
    assert not gateway.failed.done()


async def is_refused(gateway: Gateway, watch: LogWatch, code: str) -> None:
    """These parts have met it, and the process says so, whose heartbeats call no function."""

    def met() -> set[str]:
        return {str(getattr(record, "action", "")) for record in watch._records}

    await eventually(lambda: met() >= REFUSED[code], what="a word of each part")
    if code != "42883":
        reply = await ready(gateway)
        assert reply.status == 503
        assert code in reply.json["database"], reply.json


@pytest.fixture
def watch(log_watch: LogWatch) -> LogWatch:
    log_watch.expect(*ALLOWED, required=False)
    return log_watch


async def test_process_starts_while_the_database_only_reads_and_works_once_it_writes(
    postgres: PostgresForTests, tmp_path: Path, watch: LogWatch
) -> None:
    with postgres.database() as url:
        await begin(url, "vid_1")
        async with serving(url, tmp_path):
            pass  # a database that was used before
        with read_only(postgres, url):
            serves = serving(url, tmp_path)
            gateway = await serves.__aenter__()
            await is_refused(gateway, watch, "25006")
        try:
            await works(gateway, url)
        finally:
            await serves.__aexit__(None, None, None)


@pytest.mark.parametrize("code", ["42501", "42883"])
async def test_no_part_of_a_process_ends_while_the_database_refuses(
    code: str, postgres: PostgresForTests, tmp_path: Path, watch: LogWatch
) -> None:
    with postgres.database() as url:
        refuses = rights_revoked(tmp_path, url) if code == "42501" else functions_away(url)
        await begin(url, "vid_1")
        async with serving(url, tmp_path) as gateway:
            await works(gateway, url)
            with refuses:
                with postgres.away(url):
                    pass  # all connections are lost: those that listen come back to it
                await is_refused(gateway, watch, code)
            await works(gateway, url)
