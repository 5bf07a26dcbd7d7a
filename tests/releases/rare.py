"""What a gateway leaves behind only when things go wrong, or after months."""

from typing import Any

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.quarantine import book
from actors.wallet.rows import encode_settlement
from actors.wallet.verify import verify
from tests.integration.actors.process import process
from tests.integration.money import ACCOUNT, PROCESS, entry_guards, open_account
from tests.support.ledger_values import facts, hold, outcome, settle

REFUSES_77 = "ALTER TABLE call_logs {} CONSTRAINT no_77"


async def leave_what_is_rare(url: str) -> None:
    """A month with its checkpoint, a call that was corrected, one that was in quarantine."""
    async with Database(url) as database:
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(1, 9), hold(2, 9)]))
        found = outcome(1, "interrupted", seconds=20.0, detail=priced(1))
        for number in (1, 2):
            recovered = encode_settlement(facts(number), found, is_recovery=True)
            await apply(database, PROCESS, Batch(settlements=[recovered]))
        await database.execute(
            f"{entry_guards('DISABLE')};"
            " UPDATE entries SET created_at = '2024-03-15 12:00+00'"
            f" WHERE account_id = '{ACCOUNT}';"
            f" {entry_guards('ENABLE')}; SELECT entries_make_months('2024-03-01', 1)"
        )
        assert len((await verify(database)).sealed) == 1
        await apply(database, PROCESS, Batch(settlements=[settle(1, 7, detail=priced(7))]))
        await quarantine(database, url)
        assert (await verify(database, is_everything=True)).faults == []


def priced(nano_usd: int) -> dict[str, Any]:
    """What a row says of a call at this price."""
    return {"price": {"per_call": f"0.{nano_usd:09}"}, "units": {"calls": 1}}


async def quarantine(database: Database, url: str) -> None:
    """A settlement that the database refused, and that an operator booked."""
    async with process(url) as mine:
        refused = await mine.hold(100)
        await database.execute(REFUSES_77.format("ADD") + " CHECK (cost_nano_usd <> 77)")
        mine.settle(refused, 77, detail=priced(77))
        await mine.wallets.settled(ACCOUNT)
        await database.execute(REFUSES_77.format("DROP"))

    async def note(*_: object) -> None:
        pass

    assert await book(database, refused.call_id, by="ann", also=note) == "whole"
