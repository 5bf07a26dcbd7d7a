"""What the database refuses by itself, and what `gw ledger verify` finds."""

from datetime import UTC, datetime

import pytest

from actors.store.database import Database
from actors.store.errors import ConstraintViolated
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import hold, settle

REFUSED = {
    "held of an account": "UPDATE accounts SET held_nano_usd = -1",
    "held of a key": "UPDATE key_spend SET held_nano_usd = -1",
    "account without a name": "UPDATE accounts SET name = ''",
    "limit of nothing": "UPDATE accounts SET rpm_limit = 0",
    "the other limit": "UPDATE accounts SET concurrency_limit = 0",
}


async def test_values_that_can_never_be_are_refused(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 1000)
        await apply(database, PROCESS, Batch(holds=[hold(1)]))
        for statement in REFUSED.values():
            with pytest.raises(ConstraintViolated):
                await database.execute(statement)
        for batch in (Batch(holds=[hold(2, -1)]), Batch(settlements=[settle(1, 7, "odd")])):
            with pytest.raises(ConstraintViolated):
                await apply(database, PROCESS, batch)
        assert (await ledger.read_balance(database, ACCOUNT)) == (1000, 100)
        assert (await verify(database)).faults == []


WRONG_ENTRIES = {
    "hold that pays": ("'hold', -1, 1", "gen_random_uuid()"),
    "hold that releases": ("'hold', 0, -1", "gen_random_uuid()"),
    "settlement that gives": ("'settle', 1, -1", "gen_random_uuid()"),
    "refund that takes": ("'refund', -1, 0", "gen_random_uuid()"),
    "credit of nothing": ("'topup', 0, 0", "NULL"),
    "credit for a call": ("'topup', 1, 0", "gen_random_uuid()"),
    "hold without a call": ("'hold', 0, 1", "NULL"),
    "correction of nothing": ("'correction', 0, 0", "NULL"),
    "correction that holds": ("'correction', 1, 1", "NULL"),
}


async def test_entries_and_rows_that_can_never_be_are_found(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 1000)
        await apply(database, PROCESS, Batch(holds=[hold(1)]))
        await apply(database, PROCESS, Batch(settlements=[settle(1, 7)]))
        for number, (effects, call) in enumerate(WRONG_ENTRIES.values(), start=1):
            await database.execute(
                "INSERT INTO entries"
                " (account_id, kind, amount_nano_usd, held_nano_usd, call_id)"
                f" VALUES ('{ACCOUNT}', {effects}, {call})"
            )
            found = [f["invariant"] for f in (await verify(database)).faults]
            assert found.count("entry_is_sound") == number
        for status in ("rejected", "odd"):
            await database.execute("UPDATE call_logs SET status = %s", (status,))
            found = [f["invariant"] for f in (await verify(database)).faults]
            assert found.count("row_is_sound") == 1


async def test_instant_that_no_calendar_has_is_stored_as_the_last(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 1000)
        await apply(database, PROCESS, Batch(holds=[hold(1)]))
        links = {"result_urls": ["https://cdn/x"], "result_expires_at": 1e15}
        await apply(database, PROCESS, Batch(settlements=[settle(1, 7, "error", **links)]))
        row = await database.fetch_one("SELECT result_expires_at FROM call_logs")
        assert row == (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),)


async def test_what_every_call_writes_has_no_check_of_its_own(database_url: str) -> None:
    async with Database(database_url) as database:
        checked = await database.fetch_all(
            "SELECT DISTINCT relname FROM pg_constraint JOIN pg_class c ON c.oid = conrelid"
            " WHERE contype = 'c' AND relname ~ '^(entries|holds|accounts|key_spend|call_log)'"
        )
        assert checked == []
