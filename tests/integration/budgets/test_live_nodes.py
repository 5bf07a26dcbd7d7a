"""The live nodes of an account as calls are matched with them, on a real PostgreSQL."""

import pytest

from actors.clock import SystemClock
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from gw.budgets.matching import LiveNodes
from gw.budgets.node import Node
from tests.integration.keys.table import account_in, found_by, issue
from tests.support.budgets import PlainNames

INSERT = """
INSERT INTO budgets
    (id, account_id, name, scope, subject, limit_nano_usd, period, action, made_by, starts_at)
VALUES (%(id)s, %(account)s, %(id)s, %(scope)s, %(subject)s, 5, %(period)s, %(action)s, 'operator',
    now() + make_interval(secs => %(starts_in)s))
"""


async def insert(
    database: Database,
    account_id: str,
    name: str,
    scope: str,
    subject: str | None = None,
    *,
    period: str = "day",
    action: str = "refuse",
    starts_in: float = 0.0,
) -> None:
    await database.execute(
        INSERT,
        {
            "id": name,
            "account": account_id,
            "scope": scope,
            "subject": subject,
            "period": period,
            "action": action,
            "starts_in": starts_in,
        },
    )


async def test_live_nodes_are_read_with_the_version_that_the_keys_row_has(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        issued = await issue(database, account_id)

        async def version() -> int:
            found = await found_by(database, issued.text)
            assert found is not None
            return found.principal.budgets_version

        assert await version() == 0
        await insert(database, account_id, "all", "account")
        await insert(database, account_id, "ann", "user", "ann", period="total", action="warn")
        await insert(database, account_id, "late", "every_run", starts_in=60.0)
        await insert(database, account_id, "gone", "label", "team=search")
        await database.execute("UPDATE budgets SET deleted_at = now() WHERE id = 'gone'")
        clock = SystemClock()
        live = LiveNodes(database, clock, PlainNames())
        assert live.known(account_id, await version()) is None
        nodes = await live.read(account_id)
        assert nodes.version == await version() > 0
        assert live.known(account_id, nodes.version) is nodes
        found = {node.id: node for node in nodes}
        assert found["all"] == Node("all", "account", "", "day", "all", refuses=True)
        assert found["ann"] == Node("ann", "user", "ann", "total", "ann", refuses=False)
        assert 50 < found["late"].starts - clock.monotonic() <= 60
        assert len(found) == 3
        before = nodes.version
        await database.execute("UPDATE budgets SET limit_nano_usd = 6 WHERE id = 'all'")
        assert await version() > before


async def test_nodes_cannot_be_read_of_a_database_that_is_away(database_url: str) -> None:
    async with Database(database_url) as database:
        live = LiveNodes(database, SystemClock(), PlainNames())
    with pytest.raises(StoreUnavailable):
        await live.read("acct_1")
