"""Nodes made by SQL, their sums, and calls that hold on them."""

from collections.abc import Sequence
from typing import Any

from actors.store.database import Database
from actors.wallet.messages import Hold, NodeHold
from tests.integration.money import ACCOUNT, KEY
from tests.support.ledger_values import facts

NODE = "bud_a"


async def make_node(
    database: Database,
    limit: int,
    budget_id: str = NODE,
    *,
    account_id: str = ACCOUNT,
    scope: str = "account",
    subject: str | None = None,
    period: str = "total",
    action: str = "refuse",
    warn_at: Sequence[int] = (),
    time_zone: str = "UTC",
    starts: str = "1 second ago",
) -> None:
    await database.execute(
        "INSERT INTO budgets (id, account_id, name, scope, subject, limit_nano_usd, period,"
        " time_zone, action, warn_at, made_by, starts_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s,"
        " %s, %s, 'operator', now() - %s::interval)",
        (
            budget_id,
            account_id,
            f"name of {budget_id}",
            scope,
            subject,
            limit,
            period,
            time_zone,
            action,
            list(warn_at),
            "1 second" if starts == "1 second ago" else starts,
        ),
    )


async def version_of(database: Database, account_id: str = ACCOUNT) -> int:
    rows = await database.fetch_all(
        "SELECT budgets_version FROM accounts WHERE id = %s", (account_id,)
    )
    return int(rows[0][0])


def node_hold(
    number: int,
    amount: int,
    nodes: Sequence[NodeHold] | None = None,
    *,
    version: int = 1,
    on_balance: int | None = None,
    **more: Any,
) -> Hold:
    """A call that holds this amount on the usual node, or on these."""
    return Hold(
        facts=facts(number, key_id=KEY),
        amount_nano_usd=amount if on_balance is None else on_balance,
        nodes=(NodeHold(NODE, amount_nano_usd=amount),) if nodes is None else tuple(nodes),
        budgets_version=version,
        **more,
    )


async def sums_of(database: Database) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """Spent, held, leased and excess of each sum, by node and subject, the latest of each."""
    rows = await database.fetch_all(
        "SELECT budget_id, subject, spent_nano_usd, held_nano_usd, leased_nano_usd,"
        " excess_nano_usd, overshoot_nano_usd FROM budget_sums ORDER BY period_from"
    )
    assert not any(row[6] for row in rows), "a limit was passed"
    return {(row[0], row[1]): tuple(row[2:6]) for row in rows}


async def events_of(database: Database) -> list[tuple[str, str, int, str, str]]:
    """The events that were written: type, node, percent, spent, held."""
    rows = await database.fetch_all("SELECT type, data FROM events_written ORDER BY place")
    return [
        (kind, data["budget_id"], data["percent"], data["spent_usd"], data["held_usd"])
        for kind, data in rows
    ]
