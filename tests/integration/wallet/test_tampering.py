"""What was changed by hand in the ledger or the call log is found by `gw ledger verify`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.session import Session
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.claims import Claim
from actors.wallet.messages import Hold, Record
from actors.wallet.rows import encode_settlement
from actors.wallet.verify import INVARIANTS, ROWS_MAX, _faults, verify
from tests.integration.money import ACCOUNT, KEY, PROCESS, entry_guards, open_account
from tests.support.ledger_values import facts, outcome

OTHER, OTHER_KEY, SECOND_KEY = "acct_b", "key_b", "key_a2"
OF_OTHER = {"account_id": OTHER, "key_id": OTHER_KEY}
ALIKE_1, ALIKE_2, FREE, OPEN, REFUSED = range(1, 6)
ID = "00000000-0000-0000-0000-{:012d}"


def of(*numbers: int) -> str:
    return ", ".join(f"'{ID.format(number)}'" for number in numbers)


def swapped(column: str, first: int, second: int, where: str = "true") -> str:
    """SQL that exchanges a column of the entries of two calls."""
    return (
        f"UPDATE entries e SET {column} = o.{column} FROM entries o"
        f" WHERE {where} AND o.kind = e.kind AND (e.call_id, o.call_id) IN"
        f" (({of(first)}, {of(second)}), ({of(second)}, {of(first)}))"
    )


ENTRY = "INSERT INTO entries (account_id, kind, amount_nano_usd, held_nano_usd, created_at) VALUES"
BALANCED = "UPDATE accounts SET balance_nano_usd = balance_nano_usd + 300"
# What is done by hand, and the invariants that show it, of which one suffices.
TAMPERINGS: list[tuple[str, set[str]]] = [
    (
        f"UPDATE call_logs SET account_id = '{OTHER}' WHERE request_id = {of(ALIKE_1)}",
        {"call_is_of_one_key"},
    ),
    (
        f"UPDATE call_logs SET key_id = '{SECOND_KEY}' WHERE request_id = {of(ALIKE_1)}",
        {"call_is_of_one_key"},
    ),
    (
        f"UPDATE call_logs SET account_id = '{OTHER}' WHERE request_id = {of(REFUSED)}",
        {"row_is_as_written"},
    ),
    (swapped("account_id", ALIKE_1, ALIKE_2), {"call_is_of_one_key"}),
    (swapped("key_id", ALIKE_1, ALIKE_2, "e.kind = 'settle'"), {"call_is_of_one_key"}),
    (swapped("held_nano_usd", ALIKE_1, FREE, "e.kind = 'settle'"), {"call_releases_its_hold"}),
    (
        f"UPDATE holds SET amount_nano_usd = 8 WHERE call_id = {of(OPEN)}",
        {"call_releases_its_hold"},
    ),
    (f"UPDATE holds SET key_id = '{SECOND_KEY}'", {"call_is_of_one_key"}),
    (f"DELETE FROM key_spend WHERE key_id = '{KEY}'", {"key_has_its_spending"}),
    (f"DELETE FROM key_spend WHERE key_id = '{SECOND_KEY}'", {"key_has_its_spending"}),
    (
        f"UPDATE key_spend SET account_id = '{OTHER}' WHERE key_id = '{KEY}'",
        {"key_has_its_spending"},
    ),
    (f"DELETE FROM call_logs WHERE request_id = {of(REFUSED)}", {"rollup_is_sum_of_rows"}),
    (f"DELETE FROM call_logs WHERE request_id = {of(ALIKE_1)}", {"settlement_has_its_row"}),
    *(
        (f"UPDATE call_logs SET {change} WHERE request_id = {of(number)}", {"row_is_as_written"})
        for number in (ALIKE_1, REFUSED)
        for change in (
            "model = 'other'",
            "status = 'error'",
            "error_code = 'other'",
            "error_message = 'other'",
            "latency_ms = 7",
            "input_tokens = 7",
            "channel_id = 'other'",
            "protocol = 'messages'",
            "result_urls = '[1]'",
            "attempts = '[1]'",
            "detail = '{}'",
            "upstream_cost_nano_usd = 9",
            "submitted_at = submitted_at + interval '1 second'",
            "created_at = created_at + interval '1 second'",
        )
    ),
    (
        "UPDATE call_logs l SET model = o.model, digest = o.digest FROM call_logs o"
        f" WHERE (l.request_id, o.request_id) IN (({of(ALIKE_1)}, {of(ALIKE_2)}),"
        f" ({of(ALIKE_2)}, {of(ALIKE_1)}))",
        {"row_is_as_written"},
    ),
    (
        f"UPDATE call_logs SET model = 'other', digest = NULL WHERE request_id = {of(ALIKE_1)}",
        {"rollup_is_sum_of_rows"},
    ),
    (
        f"{ENTRY} ('{ACCOUNT}', 'trial', 300, 0, now()); {BALANCED} WHERE id = '{ACCOUNT}'",
        {"trial_is_granted_once"},
    ),
    (
        f"{ENTRY} ('{OTHER}', 'trial', 300, 0, now()); {BALANCED} WHERE id = '{OTHER}';"
        f" UPDATE accounts SET created_at = created_at - interval '2 hours'",
        {"trial_is_granted_once"},
    ),
    (
        f"{ENTRY} ('{ACCOUNT}', 'topup', 300, 0, now() + interval '1 day');"
        f" {BALANCED} WHERE id = '{ACCOUNT}'",
        {"entry_is_not_of_the_future"},
    ),
]


async def fill(database: Database) -> None:
    """Two accounts, with calls that are alike but for their account, of every kind of end."""
    await open_account(database, 10_000)
    await open_account(database, 10_000, OTHER, OTHER_KEY)
    await database.execute(
        "INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)"
        " VALUES (%s, %s, 'n', 'console', 'p', 'x')",
        (SECOND_KEY, ACCOUNT),
    )
    await ledger.top_up(database, ACCOUNT, 300, kind="trial")
    calls = {
        number: facts(number, **more)
        for number, more in ((ALIKE_1, {}), (ALIKE_2, OF_OTHER), (FREE, {}), (OPEN, {}))
    }
    amounts = {ALIKE_1: 9, ALIKE_2: 9, FREE: 5, OPEN: 7}
    holds = [
        Hold(
            facts=calls[number],
            amount_nano_usd=amount,
            claim=Claim(key=f"k{number}", fingerprint=b"f" * 32),
        )
        for number, amount in amounts.items()
    ]
    await apply(database, PROCESS, Batch(holds=holds))
    row: dict[str, Any] = {
        "input_tokens": 4,
        "detail": {"n": 1},
        "channel_id": "one",
        "attempts": [{"a": 1}],
    }
    ended = [
        encode_settlement(calls[number], outcome(cost, **row))
        for number, cost in ((ALIKE_1, 3), (ALIKE_2, 3), (FREE, 0))
    ]
    refused = outcome(0, "rejected", error_code="model_not_found")
    batch = Batch(settlements=ended, records=[Record(facts=facts(REFUSED), outcome=refused)])
    await apply(database, PROCESS, batch)


async def found_after(session: Session, tampering: str) -> set[str]:
    """Return what shows it, and undo it."""
    async with undone(session):
        await session.execute(entry_guards("DISABLE"))
        for statement in tampering.split(";"):
            assert await session.execute(statement) > 0, statement
        return {fault["invariant"] for fault in await _faults(session, INVARIANTS, SPAN)}


class _Undo(StoreError):
    """Ends a transaction without a commit."""


@asynccontextmanager
async def undone(session: Session) -> AsyncIterator[None]:
    try:
        async with session.transaction():
            yield
            raise _Undo
    except _Undo:
        pass


SPAN: dict[str, Any] = {"since": "-infinity"}


async def test_every_tampering_is_found(database_url: str) -> None:
    async with Database(database_url) as database:
        await fill(database)
        assert (await verify(database)).faults == []
        session = await database.session()
        try:
            missed = {
                tampering: found
                for tampering, wanted in TAMPERINGS
                if not wanted <= (found := await found_after(session, tampering))
            }
        finally:
            await session.close()
        assert missed == {}
        assert (await verify(database)).faults == []


async def test_rows_of_an_earlier_program_have_no_digest_and_verify(database_url: str) -> None:
    async with Database(database_url) as database:
        await fill(database)
        await database.execute("ALTER TABLE call_logs DISABLE TRIGGER USER")
        assert await database.execute("UPDATE call_logs SET digest = NULL") == 4
        assert (await verify(database)).faults == []


async def test_corrected_row_has_its_digest_again(database_url: str) -> None:
    async with Database(database_url) as database:
        await fill(database)
        late = outcome(2, "interrupted", seconds=20.0, error_code="gateway_restarted")
        recovered = encode_settlement(facts(OPEN), late, is_recovery=True)
        await apply(database, PROCESS, Batch(settlements=[recovered]))
        true = outcome(3, input_tokens=9, detail={"n": 2}, attempts=[{"a": 2}], channel_id="two")
        await apply(database, PROCESS, Batch(settlements=[encode_settlement(facts(OPEN), true)]))
        assert (await verify(database)).faults == []
        rows = "SELECT status, digest IS NOT NULL FROM call_logs WHERE request_id = %s::uuid"
        assert await database.fetch_all(rows, (ID.format(OPEN),)) == [("success", True)]
        await database.execute("UPDATE call_logs SET latency_ms = 1 WHERE cost_nano_usd = 3")
        found = {fault["invariant"] for fault in (await verify(database)).faults}
        assert "row_is_as_written" in found


async def test_what_is_wrong_everywhere_fills_no_memory(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10)
        await database.execute(
            "INSERT INTO entries (account_id, kind, amount_nano_usd, held_nano_usd)"
            f" SELECT '{ACCOUNT}', 'topup', -1, 0 FROM generate_series(1, {ROWS_MAX + 10})"
        )
        faults = (await verify(database)).faults
        shown = [fault for fault in faults if fault["invariant"] == "entry_is_sound"]
        assert len(shown) == ROWS_MAX
