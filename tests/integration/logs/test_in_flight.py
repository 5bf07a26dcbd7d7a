"""Async jobs under way: holds that jobs have taken over, and nobody else's."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from tornado.escape import parse_qs_bytes

from gw.api.logs.cursor import CursorSeal
from gw.api.logs.list_query import read_list_query
from gw.api.logs.pages import read_in_flight
from gw.api.logs.rows import Rendering
from gw.keys.end_users import EndUserKey
from tests.integration.logs.model import see
from tests.integration.logs.table import NOW, Table

END_USERS = EndUserKey(b"a key for tests only")
SUBMITTED = datetime(2026, 11, 3, 12, tzinfo=UTC)


async def hold(
    table: Table, number: int, account: str, key: str, process: str | None = None
) -> None:
    call_id, job_id = str(UUID(int=number)), f"task_{number}"
    await table.database.execute(
        "INSERT INTO holds (call_id, account_id, key_id, process_id, job_id, amount_nano_usd, call)"
        " VALUES (%s, %s, %s, %s, %s, 1500000, '{}')",
        (call_id, account, key, process, job_id),
    )
    await table.database.execute(
        "INSERT INTO jobs (id, call_id, account_id, key_id, kind, protocol, model, request,"
        " billing, submitted_at, deadline_at)"
        " VALUES (%s, %s, %s, %s, 'video', 'videos', 'film', '{}', '{}', %s, now())",
        (job_id, call_id, account, key, SUBMITTED),
    )
    if process is None:
        await table.database.execute(
            "UPDATE jobs SET state = 'running', channel_id = 'c', wire = 'videos',"
            " upstream_model = 'm', upstream_id = 'u', submission = '{}' WHERE id = %s",
            (job_id,),
        )


def test_jobs_of_what_the_key_sees_are_shown_with_what_they_hold(table: Table) -> None:
    async def main() -> None:
        await hold(table, 1, "acct_a", "key_a")
        await hold(table, 2, "acct_a", "key_b")
        await hold(table, 3, "acct_z", "key_z")
        await hold(table, 4, "acct_a", "key_a", process="p")  # is being submitted
        rendering = Rendering(credits_per_usd=Decimal(1000), redact=str)
        shown = {}
        narrow, foreign = (f"scope=account&key_id={key}" for key in ("key_b", "key_z"))
        for query in ("", "scope=account", narrow, foreign):
            read = read_list_query(
                parse_qs_bytes(query), see=see, seal=CursorSeal(b"k"), end_users=END_USERS, now=NOW
            )
            jobs = await read_in_flight(table.database, read)
            shown[query] = [rendering.job(job) for job in jobs]
        assert shown[""] == [
            {
                "object": "log.in_flight",
                "task_id": "task_1",
                "request_id": UUID(int=1).hex,
                "submitted_at": "2026-11-03T12:00:00Z",
                "key_id": "key_a",
                "key_name": "name of key_a",
                "key_prefix": "sk-platform-1234",
                "model": "film",
                "held": "1.5",
            }
        ]
        assert [job["key_id"] for job in shown["scope=account"]] == ["key_b", "key_a"]
        assert [job["key_id"] for job in shown[narrow]] == ["key_b"]
        assert shown[foreign] == []

    table.run(main())
