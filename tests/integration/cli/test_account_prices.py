"""`gw account price` on a real PostgreSQL"""

import asyncio

from actors.store.database import Database
from tests.integration.cli.command import Gw
from tests.integration.keys.table import found_by, issue


def test_prices_are_agreed_listed_and_taken_back(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]
    assert gw.run_json("account", "price", account_id) == {"account": account_id, "prices": []}
    span = ("--from", "2026-01-01T00:00:00Z", "--until", "2027-01-01T00:00:00Z")
    factor = ("--factor", "0.80", "--models", "gpt-*", "claude-*")
    (first,) = gw.run_json("account", "price", account_id, *factor, *span)["prices"]
    assert (first["factor"], first["models"]) == ("0.80", ["gpt-*", "claude-*"])
    assert first["unmatched"] == ["claude-*"]
    assert (first["valid_from"], first["valid_until"]) == (
        "2026-01-01T00:00:00Z",
        "2027-01-01T00:00:00Z",
    )
    own = '{"input": "2.50", "above_tokens": [{"above": 200000, "input": "5"}]}'
    _, second = gw.run_json("account", "price", account_id, "--prices", own)["prices"]
    assert second["prices"] == {"input": "2.50", "above_tokens": [{"above": 200000, "input": "5"}]}
    listed = gw.run_json("account", "price", account_id, "--remove", first["id"])["prices"]
    assert [one["removed_at"] is None for one in listed] == [False, True]
    assert gw.refuses("account", "price", account_id, "--remove", first["id"])[0] == (
        "price_not_found"
    )
    message = gw.run(
        "account", "price", account_id, "--factor", "2", "--models", "gtp-*", "gpt-latest"
    )
    assert "0.80" in message.out
    # Those of the price that was taken back are not named.
    assert [line.partition("has the id ")[2] for line in message.out.splitlines()[4:]] == [
        "gtp-*",
        "gpt-latest, it is an alias of gpt-large",
    ]


def test_what_cannot_be_agreed_is_refused(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]
    assert gw.refuses("account", "price", "acct_none", "--factor", "2")[0] == "account_not_found"
    over = ("--from", "2027-01-01T00:00:00Z", "--until", "2026-01-01T00:00:00Z")
    request = ("account", "price", account_id, "--factor", "2", *over)
    assert "a price ends after it begins" in gw.refuses(*request, exit_code=2)[1]


def test_agreed_prices_come_with_the_key(gw: Gw, database_url: str) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]

    async def issued() -> str:
        async with Database(database_url) as database:
            return (await issue(database, account_id)).text

    async def factors(text: str) -> list[str] | None:
        async with Database(database_url) as database:
            found = await found_by(database, text)
        assert found is not None
        prices = found.principal.prices
        return None if prices is None else [str(one.factor) for one in prices.agreed]

    key = asyncio.run(issued())
    assert asyncio.run(factors(key)) is None
    gw.run_json("account", "price", account_id, "--factor", "0.5")
    gone = gw.run_json("account", "price", account_id, "--prices", '{"output": "7"}')["prices"][1]
    assert asyncio.run(factors(key)) == ["0.5", "None"]
    over = ("--from", "2020-01-01T00:00:00Z", "--until", "2021-01-01T00:00:00Z")
    gw.run_json("account", "price", account_id, "--factor", "3", *over)
    gw.run_json("account", "price", account_id, "--remove", gone["id"])
    assert asyncio.run(factors(key)) == ["0.5"]
