"""`gw account usage` on a real PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta

from actors.store.database import Database
from tests.integration.cli.command import Gw
from tests.support.call_log import Row, write_rows

NOW = datetime.now(UTC)


def rows_of(account_id: str) -> list[Row]:
    said = ({"end_user": "ann"}, {"end_user": "bob"}, {"end_user": "ann"}, None)
    return [
        Row(
            number=number,
            created_at=NOW - timedelta(minutes=number),
            account_id=account_id,
            key_id="key_1",
            cost_nano_usd=1_000_000 * number,
            input_tokens=10,
            attribution=one,
        )
        for number, one in enumerate(said, start=1)
    ]


async def write(url: str, account_id: str) -> None:
    async with Database(url) as database:
        await write_rows(database, rows_of(account_id))


def test_what_an_account_has_cost_is_shown_by_what_its_calls_have(
    gw: Gw, database_url: str
) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]
    asyncio.run(write(database_url, account_id))
    found = gw.run_json("account", "usage", account_id, "--by", "end_user")
    assert (found["account_id"], found["by"]) == (account_id, "end_user")
    sums = {"requests": 1, "input_tokens": 10, "output_tokens": 20, "cached_tokens": 5}
    twice = {"requests": 2, "input_tokens": 20, "output_tokens": 40, "cached_tokens": 10}
    assert found["by_group"] == [
        {"group": "ann", "cost_usd": "0.004", "cost": "4", **twice},
        {"group": None, "cost_usd": "0.004", "cost": "4", **sums},
        {"group": "bob", "cost_usd": "0.002", "cost": "2", **sums},
    ]
    assert found["total"]["cost_usd"] == "0.01"
    text = gw.run("account", "usage", account_id, "--by", "key").out
    assert "key_1" in text
    nothing = ["--from", "2026-01-01", "--to", "2026-01-02"]
    assert gw.run_json("account", "usage", account_id, "--by", "run", *nothing)["by_group"] == []


def test_what_nobody_can_add_up_is_refused(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]
    for options in (
        ["--by", "cost"],
        ["--by", "label.X"],
        ["--by", "key", "--from", "2026-01-01"],
        ["--by", "key", "--from", "2024-01-01", "--to", "2026-01-01"],
        [],
    ):
        gw.refuses("account", "usage", account_id, *options, exit_code=2)
    assert gw.refuses("account", "usage", "acct_none", "--by", "key")[0] == "account_not_found"
