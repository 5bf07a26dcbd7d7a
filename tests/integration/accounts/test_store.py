"""The table of accounts on a real PostgreSQL."""

from __future__ import annotations

import pytest

from actors.store.connection import StatementRefused
from actors.store.database import Database
from gw import accounts


async def test_account_whose_credit_fails_is_not_there(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(StatementRefused):
            await accounts.create(database, "Ann", credit_nano_usd=2**63 - 1, with_trial=True)
        assert await accounts.list_all(database) == []
        assert (await accounts.create(database, "Bob")).name == "Bob"
