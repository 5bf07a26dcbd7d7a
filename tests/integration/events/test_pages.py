"""Pages of events: cursors that lose nothing, and those that are refused."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from actors.events import outbox
from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.ledger import UnknownAccount
from actors.wallet.verify import verify
from gw import cursors
from gw.admin import events
from gw.admin.events import EventPage, EventQuery
from gw.api.logs.rows import Rendering
from gw.nouns.refused import Invalid, Refused
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import facts, hold, refused, settle
from tests.support.rows import each

DAYS = 30.0
RENDERING = Rendering(
    credits_per_usd=Decimal(1000), redact=lambda text: text.replace("secret", "***")
)


async def page(database: Database, *, keep_days: float = DAYS, **query: Any) -> EventPage:
    return await events.page(
        database, EventQuery(**query), keep_days=keep_days, show_call=RENDERING.settled
    )


async def write(database: Database, kind: str, data: str = "{}", account: str = ACCOUNT) -> None:
    await database.execute("SELECT event_write(%s, %s, %s::json)", (account, kind, data))


def places(found: EventPage) -> list[int]:
    return [one.sequence for one in found.data]


async def test_pages_follow_each_other_to_the_end_and_beyond(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        first = await page(database)
        assert (first.data, bool(first.next_cursor)) == ([], True)
        for _ in range(5):
            await write(database, "key.created")
        found = await page(database, cursor=first.next_cursor, limit=2)
        assert places(found) == [1, 2]
        found = await page(database, cursor=found.next_cursor, limit=2)
        assert places(found) == [3, 4]
        found = await page(database, cursor=found.next_cursor, limit=2)
        assert places(found) == [5]
        found = await page(database, cursor=found.next_cursor)
        assert places(found) == []
        await write(database, "key.revoked")
        found = await page(database, cursor=found.next_cursor)
        assert places(found) == [6]
        (event,) = found.data
        assert (event.type, event.account_id, event.data) == ("key.revoked", ACCOUNT, {})
        assert abs(event.timestamp - datetime.now(UTC)) < timedelta(minutes=5)
        assert list(msgspec.to_builtins(event)) == [
            *("id", "sequence", "type", "timestamp", "account_id", "data")
        ]


async def test_a_filtered_page_goes_on_after_what_it_passed_over(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        await open_account(database, 0)
        await write(database, "key.created")
        for _ in range(3):
            await write(database, "key.revoked", account="acct_other")
        found = await page(database, type="key.created")
        assert places(found) == [1]
        await write(database, "key.revoked")
        found = await page(database, cursor=found.next_cursor, account_id=ACCOUNT)
        assert places(found) == [5]
        with pytest.raises(UnknownAccount):
            await page(database, account_id="acct_nobody")


async def test_no_event_comes_before_a_cursor_that_was_given(database_url: str) -> None:
    async with Database(database_url, size=3) as database, database.transaction() as slow:
        await slow.execute("SELECT event_write(%s, 'key.created', '{}')", (ACCOUNT,))
        await write(database, "key.updated")
        found = await page(database)
        assert [one.type for one in found.data] == ["key.updated"]
        await slow.execute("COMMIT")
        found = await page(database, cursor=found.next_cursor)
        assert [one.type for one in found.data] == ["key.created"]
        await slow.execute("BEGIN")


def cursor(sequence: int, age: timedelta = timedelta()) -> str:
    at = datetime.now(UTC) - age
    return cursors.write_position([sequence, at])


@each("text", ["AAAA", "x", cursor(99), cursor(-1), cursors.write_position(1), cursor(2**63)])
async def test_a_cursor_that_is_none_is_refused(database_url: str, text: str) -> None:
    async with Database(database_url, size=1) as database:
        await write(database, "key.created")
        with pytest.raises(Invalid):
            await page(database, cursor=text)


async def test_a_cursor_older_than_what_is_kept_is_expired(database_url: str) -> None:
    async with Database(database_url, size=1) as database:
        for _ in range(4):
            await write(database, "key.created")
        found = await page(database, limit=2)
        assert places(await page(database, cursor=found.next_cursor)) == [3, 4]
        await database.execute(
            "UPDATE events SET numbered_at = numbered_at - interval '31 days' WHERE sequence <= 3"
        )
        assert await outbox.purge(database, DAYS, 10) == 3
        with pytest.raises(Refused) as expired:
            await page(database, cursor=found.next_cursor)
        assert (expired.value.code, expired.value.http_status) == ("cursor_expired", 410)
        assert places(await page(database, cursor=cursor(3))) == [4]  # nothing is lost after it
        assert places(await page(database)) == [4]
        with pytest.raises(Refused, match=r"0\.5 days"):
            await page(database, cursor=cursor(4, timedelta(hours=13)), keep_days=0.5)
        assert places(await page(database, cursor=cursor(3, timedelta(hours=11)), keep_days=0.5))
        report = await verify(database)
        assert (report.faults, report.counts["events"]) == ([], 1)


async def test_a_call_is_shown_as_the_log_shows_it_and_with_its_cost(database_url: str) -> None:
    async with Database(database_url, size=1) as database:
        await open_account(database, 10**10)
        await outbox.want_calls(database, are_wanted=True)
        await apply(database, PROCESS, Batch(holds=[hold(1, 10**9)]))
        await apply(database, PROCESS, Batch(settlements=[settle(1, 1_500_000, input_tokens=7)]))
        words = {"error_code": "invalid_request", "error_message": "no secret"}
        await apply(database, PROCESS, Batch(records=[refused(2, **words)]))
        settled, rejected = (one.data for one in (await page(database, type="call.settled")).data)
        assert (settled["object"], settled["cost"], settled["cost_usd"]) == ("log", "1.5", "0.0015")
        assert (settled["request_id"], settled["input_tokens"]) == (facts(1).call_id.hex, 7)
        assert settled["created_at"].endswith("Z")
        assert (rejected["status"], rejected["cost_usd"]) == ("rejected", "0")
        assert rejected["error_message"] == "no ***"
        assert settled.keys() == rejected.keys() == {*_row_keys(), "cost_usd"}


def _row_keys() -> set[str]:
    row: Mapping[str, Any] = RENDERING.settled(
        {
            **dict.fromkeys(("id", "input_tokens", "output_tokens", "cached_tokens"), 0),
            **dict.fromkeys(("cost_nano_usd", "latency_ms"), 0),
            **dict.fromkeys(("account_id", "key_id", "model", "status"), "x"),
            "request_id": str(facts(1).call_id),
            "created_at": "2026-01-01T00:00:00+00:00",
            "submitted_at": "2026-01-01T00:00:00+00:00",
        }
    )
    return set(row) - {"cost_usd"}


@pytest.mark.parametrize(
    ("tampering", "invariant"),
    [
        ("DELETE FROM events WHERE sequence = 2", "event_numbers_have_no_gap"),
        ("DELETE FROM events WHERE sequence = 3", "event_numbers_have_no_gap"),
        ("UPDATE events SET sequence = 9 WHERE sequence = 3", "event_numbers_have_no_gap"),
        (
            "INSERT INTO events_written (id, type, at, data)"
            " SELECT id, type, at, data FROM events WHERE sequence = 1",
            "event_is_written_once",
        ),
        (
            "UPDATE events SET type = 'task.ended', data = '{\"task_id\": \"vid_1\"}'",
            "task_has_its_event",
        ),
    ],
)
async def test_what_was_changed_by_hand_is_found(
    database_url: str, tampering: str, invariant: str
) -> None:
    async with Database(database_url, size=2) as database:
        for _ in range(3):
            await write(database, "key.created")
        await page(database)
        report = await verify(database)
        assert (report.faults, report.counts["events"]) == ([], 3)
        await database.execute(tampering)
        assert {fault["invariant"] for fault in (await verify(database)).faults} == {invariant}
