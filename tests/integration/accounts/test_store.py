"""The table of accounts on a real PostgreSQL."""

from __future__ import annotations

import pytest

from actors.store.connection import StatementRefused
from actors.store.database import Database
from actors.wallet.ledger import UnknownAccount
from actors.wallet.verify import verify
from gw import accounts


async def test_new_account_has_its_credits_as_entries(database_url: str) -> None:
    async with Database(database_url) as database:
        account = await accounts.create(
            database,
            "Ann",
            rpm_limit=60,
            concurrency_limit=2,
            credit_nano_usd=5,
            with_trial=True,
        )
        assert account == await accounts.show(database, account.id)
        assert (account.name, account.enabled) == ("Ann", True)
        assert (account.rpm_limit, account.concurrency_limit) == (60, 2)
        assert account.balance_nano_usd == account.available_nano_usd == 300_000_005
        entries = await database.fetch_all(
            "SELECT account_id, kind, amount_nano_usd FROM entries ORDER BY id"
        )
        assert entries == [(account.id, "trial", 300_000_000), (account.id, "topup", 5)]
        assert (await verify(database)).ok


async def test_account_without_credit_has_no_entry(database_url: str) -> None:
    async with Database(database_url) as database:
        account = await accounts.create(database, "Ann")
        assert account.balance_nano_usd == 0
        assert (account.rpm_limit, account.concurrency_limit) == (None, None)
        assert await database.fetch_all("SELECT FROM entries") == []


async def test_account_whose_credit_fails_is_not_there(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(StatementRefused):
            await accounts.create(database, "Ann", credit_nano_usd=2**63 - 1, with_trial=True)
        assert await accounts.list_all(database) == []
        assert (await accounts.create(database, "Bob")).name == "Bob"


async def test_accounts_are_listed_in_the_order_they_were_made(database_url: str) -> None:
    async with Database(database_url) as database:
        made = [await accounts.create(database, name) for name in ("a", "b", "b")]
        assert await accounts.list_all(database) == made


async def test_limits_are_set_and_lifted_one_by_one(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = (await accounts.create(database, "Ann", rpm_limit=60)).id

        async def limits(changes: accounts.LimitChanges) -> tuple[int | None, int | None]:
            await accounts.set_limits(database, account_id, changes)
            account = await accounts.show(database, account_id)
            return account.rpm_limit, account.concurrency_limit

        assert await limits({"concurrency_limit": 2}) == (60, 2)
        assert await limits({"rpm_limit": None}) == (None, 2)
        assert await limits({"rpm_limit": 1, "concurrency_limit": None}) == (1, None)
        assert await limits({}) == (1, None)


async def test_account_is_disabled_and_enabled(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = (await accounts.create(database, "Ann")).id
        for enabled in (False, False, True):
            await accounts.set_enabled(database, account_id, enabled=enabled)
            assert (await accounts.show(database, account_id)).enabled is enabled


async def test_account_that_is_not_there_is_named(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(UnknownAccount, match="acct_none"):
            await accounts.show(database, "acct_none")
        with pytest.raises(UnknownAccount):
            await accounts.set_limits(database, "acct_none", {"rpm_limit": 1})
        with pytest.raises(UnknownAccount):
            await accounts.set_enabled(database, "acct_none", enabled=True)
