"""`gw ledger quarantine`: what the ledger refused, and how it is charged."""

import asyncio

from actors.store.database import Database
from actors.wallet.quarantine import Quarantined, keep
from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw
from tests.support.ledger_values import facts, outcome


def test_quarantined_call_is_listed_and_booked(gw: Gw, account: str, database_url: str) -> None:
    key = gw.run_json("key", "create", "--account", account, "--name", "k")["id"]
    assert gw.run_json("ledger", "quarantine") == {"calls": []}
    call = facts(1, account_id=account, key_id=key)

    async def refused() -> None:
        async with Database(database_url) as database:
            await keep(database, Quarantined(facts=call, outcome=outcome(250), error="so"), None)

    asyncio.run(refused())
    (one,) = gw.run_json("ledger", "quarantine")["calls"]
    assert (one["call"], one["account"], one["error"]) == (str(call.call_id), account, "so")
    assert one["cost_usd"] == "0.00000025"
    assert gw.run("ledger", "verify", "--json").exit_code == 1
    response = gw.run_json("ledger", "quarantine", "--book", call.call_id.hex)
    assert response == {"call": str(call.call_id), "booked_as": "whole"}
    assert gw.run_json("ledger", "quarantine") == {"calls": []}
    assert gw.run_json("ledger", "verify")["ok"]
    with transaction(database_url) as cursor:
        cursor.execute("SELECT sum(amount_nano_usd) FROM entries WHERE account_id = %s", (account,))
        assert cursor.fetchone() == (-250,)
        cursor.execute("SELECT count(*) FROM audit_trail WHERE action = 'ledger.book'")
        assert cursor.fetchone() == (1,)
    code, _ = gw.refuses("ledger", "quarantine", "--book", facts(2).call_id.hex)
    assert code == "not_quarantined"
