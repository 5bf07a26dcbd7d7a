"""Settlements that the database refuses for what they say: kept, shown and booked."""

from pathlib import Path
from typing import Any

import pytest

from actors.jobs import store
from actors.store.database import Database
from actors.store.errors import ContentRefused
from actors.store.session import Session
from actors.wallet.claims import Claim, ClaimEnd, ClaimState, Free, KeptResponse
from actors.wallet.flight_recorder.wreck import left_behind
from actors.wallet.ledger import read_balance, read_holds_summary
from actors.wallet.messages import CallFacts
from actors.wallet.quarantine import (
    Quarantined,
    UnknownQuarantined,
    adopt,
    book,
    decode,
    keep,
    waiting,
)
from actors.wallet.verify import verify
from gw.conditions import read_facts
from gw.idempotency.store import IdempotencyStore
from tests.integration.actors.process import GONE, age_holds, lease, ledger_of, process, rows_of
from tests.integration.actors.test_jobs import JOB, begin, end, the_job
from tests.integration.money import ACCOUNT
from tests.support.jobs import FILM
from tests.support.ledger_values import facts as unknown
from tests.support.ledger_values import outcome
from tests.support.logs import logs

BALANCE = 10_000
REFUSED = ("ledger_batch_failed", "ledger_message_refused", "settlement_quarantined")
NO_77 = "ALTER TABLE {} ADD CONSTRAINT no_77 CHECK (cost_nano_usd <> 77)"
ANY = "ALTER TABLE {} DROP CONSTRAINT no_77"


async def booked(database: Database, facts: CallFacts) -> str:
    """Book a call; what is done with it goes into the same transaction."""
    noted: list[str] = []

    async def note(session: Session, how: str) -> None:
        assert await session.fetch_one("SELECT 1") == (1,)
        noted.append(how)

    how = await book(database, facts.call_id, by="ann", also=note)
    assert noted in ([], [how])
    return how


async def row_of(database: Database, facts: CallFacts) -> Any:
    return await database.fetch_one(
        "SELECT status::text, cost_nano_usd, detail ->> 'basis' FROM call_logs"
        " WHERE request_id = %s",
        (str(facts.call_id),),
    )


@logs(*REFUSED)
async def test_refused_settlement_waits_with_its_hold_and_is_booked(database_url: str) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        bad, good = [await mine.hold(100) for _ in range(2)]
        await database.execute(NO_77.format("call_logs"))
        mine.settle(bad, 77, detail={"basis": "estimated"})
        mine.settle(good, 30)
        await mine.wallets.settled(ACCOUNT)
        assert await read_balance(database, ACCOUNT) == (BALANCE - 30, 100)
        (one,) = await waiting(database)
        assert (one.call_id, one.account_id, one.cost_nano_usd) == (str(bad.call_id), ACCOUNT, 77)
        assert "no_77" in one.error
        report = await verify(database)
        assert {fault["invariant"] for fault in report.faults} == {"quarantine_is_booked"}
        await age_holds(database, 3600.0)  # by design: its own alarm is the quarantine's
        found = await read_holds_summary(database)
        assert (found.open_count, found.oldest_seconds, found.quarantined) == (0, 0.0, 1)
        assert (await read_facts(database)).oldest_hold_seconds == 0.0

        with pytest.raises(ContentRefused):  # also without its texts
            await booked(database, bad)
        assert await waiting(database) == [one]
        await database.execute(ANY.format("call_logs"))
        assert [await booked(database, bad) for _ in range(2)] == ["whole", "whole"]
        assert await read_balance(database, ACCOUNT) == (BALANCE - 107, 0)
        assert await row_of(database, bad) == ("success", 77, "estimated")
        assert await waiting(database) == []


@logs(*REFUSED)
async def test_what_is_refused_again_is_booked_without_what_is_refused(database_url: str) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        facts = await mine.hold(100)
        await database.execute("ALTER TABLE call_logs ADD CHECK (detail ->> 'said' IS NULL)")
        mine.settle(facts, 77, detail={"basis": "estimated", "said": "something"})
        await mine.wallets.settled(ACCOUNT)
        assert await booked(database, facts) == "shortened"
        assert await row_of(database, facts) == ("success", 77, "estimated")
        assert await read_balance(database, ACCOUNT) == (BALANCE - 77, 0)


@logs(*REFUSED)
@pytest.mark.parametrize(
    ("end", "state"),
    [(KeptResponse(status=200, headers=(), body=b"png"), "too_large"), (Free(), None)],
    ids=["bought", "failed"],
)
async def test_idempotency_key_of_a_refused_settlement_ends_at_once_and_for_as_long_as_any(
    end: ClaimEnd, state: ClaimState | None, database_url: str
) -> None:
    claim = Claim(key="order-1", fingerprint=b"one")
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        keys = IdempotencyStore(database)
        facts = await mine.hold(100, claim=claim)
        await database.execute(NO_77.format("call_logs"))
        mine.settle(facts, 77, claim_end=end)
        await mine.wallets.settled(ACCOUNT)
        assert await keys.state(ACCOUNT, claim) == state
        report = await verify(database)
        assert {fault["invariant"] for fault in report.faults} == {"quarantine_is_booked"}
        await database.execute(ANY.format("call_logs"))
        assert await booked(database, facts) == "whole"
        await database.execute("UPDATE idempotency SET expires_at = expires_at - interval '1 hour'")
        assert await keys.state(ACCOUNT, claim) == state


@logs(*REFUSED)
async def test_call_out_of_a_lease_is_charged_though_its_hold_was_never_written(
    database_url: str,
) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        await lease(mine)
        before = await read_balance(database, ACCOUNT)
        assert before is not None
        await database.execute(NO_77.format("call_logs"))
        facts = await mine.hold(100)
        mine.settle(facts, 77)
        await mine.wallets.settled(ACCOUNT)
        await database.execute(ANY.format("call_logs"))
        assert await booked(database, facts) == "whole"
        assert await read_balance(database, ACCOUNT) == (before[0] - 77, 0)


@logs(*REFUSED)
async def test_killed_process_leaves_its_refused_settlements_to_the_quarantine(
    database_url: str, tmp_path: Path
) -> None:
    async with ledger_of(database_url, BALANCE) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            written = await dead.hold(100)
            await lease(dead)
            unwritten = await dead.hold(100)
            await database.execute(NO_77.format("call_logs"))
            for facts in (written, unwritten):
                dead.settle(facts, 77)
            await dead.wallets.settled(ACCOUNT)
            assert len(dead.wallets.recorder) == 2
            assert len(await waiting(database)) == 2
        await database.execute(ANY.format("call_logs"))  # from here on recovery could book them
        before = await read_balance(database, ACCOUNT)
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            for _ in range(2):
                assert await judge.recovery.sweep() == 0
        assert left_behind(tmp_path) == []
        assert await read_balance(database, ACCOUNT) == before == (BALANCE, 100)
        for facts in (written, unwritten):
            assert [await booked(database, facts) for _ in range(2)] == ["whole", "whole"]
            assert await rows_of(database, facts.call_id) == [("success", None, 77)]
        assert await read_balance(database, ACCOUNT) == (BALANCE - 2 * 77, 0)


@logs(*REFUSED, "calls_recovered", "recovery_corrected", required=False)
async def test_booking_takes_the_place_of_what_recovery_settled(
    database_url: str, tmp_path: Path
) -> None:
    """Its file is on a host that does not run, and recovery is another host's."""
    async with ledger_of(database_url, BALANCE) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            facts = await dead.hold(100)
            dead.lives(facts, 30)
            await dead.heartbeat.beat()
            await database.execute(NO_77.format("call_logs"))
            await database.execute(NO_77.format("quarantine"))
            dead.settle(facts, 77)
            await dead.wallets.settled(ACCOUNT)
        for table in ("call_logs", "quarantine"):
            await database.execute(ANY.format(table))
        async with process(database_url, gone_pids=frozenset({GONE})) as judge:
            assert await judge.recovery.sweep() == 1
        assert await rows_of(database, facts.call_id) == [("interrupted", "gateway_restarted", 30)]
        assert await adopt(database, tmp_path) == 0
        assert [await booked(database, facts) for _ in range(2)] == ["whole", "whole"]
        assert await rows_of(database, facts.call_id) == [("success", None, 77)]
        assert await read_balance(database, ACCOUNT) == (BALANCE - 77, 0)


async def test_own_settlement_replaces_that_of_recovery_and_nothing_replaces_it(
    database_url: str,
) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        facts = await mine.hold(100)
        for cost, is_recovery in ((30, True), (77, False), (40, True), (50, False)):
            kept = Quarantined(
                facts=facts, outcome=outcome(cost), error="so", is_recovery=is_recovery
            )
            await keep(database, kept, None)
        (one,) = await waiting(database)
        assert one.cost_nano_usd == 77
        assert await booked(database, facts) == "whole"
        assert await rows_of(database, facts.call_id) == [("success", None, 77)]
        assert await read_balance(database, ACCOUNT) == (BALANCE - 77, 0)


@logs(*REFUSED)
@pytest.mark.parametrize("how", ["whole", "shortened"])
async def test_job_whose_settlement_is_refused_rests_until_it_is_booked(
    how: str, database_url: str
) -> None:
    refused = "detail ->> 'said' IS NULL" if how == "shortened" else "cost_nano_usd <> 77"
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        facts = await begin(mine)
        await database.execute(f"ALTER TABLE call_logs ADD CONSTRAINT c CHECK ({refused})")
        await end(mine, facts, "succeeded", 77, said="something")
        assert await store.read_in_flight(database) == {}  # nobody polls it
        assert await store.read_open(database, JOB) is None  # a poll under way ends nothing
        assert (await the_job(database)).state == "queued"
        assert await read_balance(database, ACCOUNT) == (BALANCE, 100)
        report = await verify(database)
        assert {fault["invariant"] for fault in report.faults} == {"quarantine_is_booked"}
        if how == "whole":
            await database.execute("ALTER TABLE call_logs DROP CONSTRAINT c")
        assert [await booked(database, facts) for _ in range(2)] == [how, how]
        job = await the_job(database)
        assert (job.state, job.result) == ("succeeded", FILM)
        assert await rows_of(database, facts.call_id) == [("success", None, 77)]
        assert await read_balance(database, ACCOUNT) == (BALANCE - 77, 0)


@logs(*REFUSED)
async def test_settlement_that_came_another_way_is_not_booked_twice(database_url: str) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as mine:
        facts = await mine.hold(100)
        await database.execute(NO_77.format("call_logs"))
        mine.settle(facts, 77)
        await mine.wallets.settled(ACCOUNT)
        mine.settle(facts, 40)
        await mine.wallets.settled(ACCOUNT)
        await database.execute(ANY.format("call_logs"))
        assert await booked(database, facts) == "settled_before"
        assert await read_balance(database, ACCOUNT) == (BALANCE - 40, 0)


@logs(*REFUSED, "database_refused", required=False)
@pytest.mark.parametrize("how", ["its content", "its state"])
async def test_file_takes_what_the_table_refuses_until_it_takes_it(
    how: str, database_url: str, tmp_path: Path
) -> None:
    spoil, heal = {
        "its content": (NO_77.format("quarantine"), ANY.format("quarantine")),
        "its state": (
            "ALTER TABLE quarantine RENAME TO quarantine_away",
            "ALTER TABLE quarantine_away RENAME TO quarantine",
        ),
    }[how]
    async with (
        ledger_of(database_url, BALANCE) as database,
        process(database_url, data_dir=tmp_path) as mine,
    ):
        facts = await begin(mine)
        await database.execute(NO_77.format("call_logs"))
        await database.execute(spoil)
        await end(mine, facts, "succeeded", 77)
        (file,) = (tmp_path / "quarantine").iterdir()
        assert decode(file.read_bytes()).facts == facts
        assert await store.read_in_flight(database) == {}  # its job is not polled again
        await database.execute(heal)
        await database.execute(ANY.format("call_logs"))
        await mine.recovery.sweep()
        assert not file.exists()
        (one,) = await waiting(database)
        assert one.cost_nano_usd == 77
        assert await booked(database, facts) == "whole"
        assert (await the_job(database)).state == "succeeded"
        assert await read_balance(database, ACCOUNT) == (BALANCE - 77, 0)
        with pytest.raises(UnknownQuarantined):
            await booked(database, unknown(1))
