"""The writer of the ledger."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from actors.store.errors import StatementRefused
from actors.wallet import writer
from actors.wallet.batch import Batch, parameters
from actors.wallet.claims import Claim, KeptResponse
from actors.wallet.messages import Hold, LedgerUnavailable
from actors.wallet.quarantine import decode
from actors.wallet.wallets import HOLD_SECONDS, KeyTaken
from actors.wallet.writer import BATCH_THRESHOLD, GATHER_MAX_SECONDS
from tests.support.aio import eventually, jump, waited
from tests.support.fake_ledger import read_rows
from tests.support.ledger_values import ACCOUNT, facts, hold, outcome, settle
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.wallet.bank import Bank, bank


async def test_messages_that_wait_share_a_transaction() -> None:
    async with bank(balance=10_000) as b:
        await b.hold(hold(1))
        b.ledger.batches.clear()
        b.ledger.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(b.hold(hold(n))) for n in range(2, 42)]
        await asyncio.sleep(0)
        b.ledger.gate.set()
        await asyncio.gather(*waiting)
        assert len(b.ledger.batches) <= 2


async def test_more_askers_than_the_mailbox_takes_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "CAPACITY", 3)  # of which one for the lease that is asked for

    async with bank(balance=10_000) as b:
        b.wallets.note_balance(ACCOUNT, 10_000)
        waiting = [asyncio.ensure_future(b.hold(hold(n))) for n in range(2)]
        await asyncio.sleep(0)
        for refused in (b.hold(hold(2)), b.wallets.settled(ACCOUNT)):
            with pytest.raises(LedgerUnavailable):
                await refused
        await asyncio.gather(*waiting)
        await b.hold(hold(3))


async def test_after_a_large_batch_the_next_gathers_for_a_moment() -> None:
    async with bank(balance=10_000) as b:
        await asyncio.gather(*(b.hold(hold(n)) for n in range(BATCH_THRESHOLD)))
        for number in range(3):
            b.wallets.settle(facts(number), outcome(10))
            await asyncio.sleep(0)  # the writer has its turn, and waits all the same
        applied = asyncio.ensure_future(b.wallets.settled(ACCOUNT))
        await asyncio.sleep(0)
        assert b.ledger.batches == [0]
        b.clock.advance(GATHER_MAX_SECONDS)
        await applied
        assert b.ledger.batches == [0, 3]


async def test_settlement_goes_with_the_next_hold() -> None:
    async with bank() as b:
        await b.hold(hold(1))
        b.wallets.settle(facts(1), outcome(250))
        await asyncio.sleep(0)  # the writer has its turn, and leaves it
        await b.hold(hold(2))
        assert b.ledger.batches == [0, 1]
        assert b.ledger.balances[ACCOUNT] == 750
        assert b.writer.is_idle


async def test_settlement_that_nothing_follows_goes_by_itself() -> None:
    async with bank() as b:
        for number in (1, 2):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(250))
            assert not b.writer.is_idle
            await eventually(lambda: b.writer.is_idle)
        assert b.ledger.balances[ACCOUNT] == 500
        assert b.ledger.batches == [0, 1, 0, 1]


@logs("settled_already")
async def test_settlement_moves_the_balance_once() -> None:
    async with bank() as b:
        await b.hold(hold(1))
        b.wallets.settle(facts(1), outcome(250))
        b.wallets.settle(facts(1), outcome(300))  # of one batch the first counts
        await b.wallets.settled(ACCOUNT)
        b.wallets.settle(facts(1), outcome(250))
        await b.wallets.settled(ACCOUNT)
        assert (b.ledger.balances[ACCOUNT], b.ledger.held[ACCOUNT]) == (750, 0)
        assert await waited(b.wallets.available(ACCOUNT)) == 750


async def test_asker_who_left_leaves_no_hold_behind() -> None:
    async with bank() as b:
        b.ledger.gate = asyncio.Event()
        asking = asyncio.ensure_future(b.hold(hold(1)))
        await eventually(lambda: bool(b.writer.unsettled()))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.holds == {}
        assert b.ledger.rows == {}
        assert b.ledger.faults() == []


async def test_answer_and_cancellation_in_one_turn_leave_no_hold_behind() -> None:
    async with bank() as b:
        asking = asyncio.ensure_future(b.hold(hold(1)))
        while not b.ledger.holds:
            await asyncio.sleep(0)
        asking.cancel()  # the answer is set, the asker has not run yet
        await asyncio.wait([asking])
        await b.wallets.settled(ACCOUNT)
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.holds == {} or not asking.cancelled()
        assert b.ledger.faults() == []


@logs("ledger_unreachable")
async def test_lost_connection_repeats_the_batch_without_a_second_effect() -> None:
    async with bank() as b:
        await b.hold(hold(1))
        b.ledger.lose_after = 1  # committed, but nobody was told
        b.wallets.settle(facts(1), outcome(250))
        await eventually(lambda: b.clock.sleepers > 0)
        b.clock.advance(0.05)
        with_noop = b.wallets.settled(ACCOUNT)
        await with_noop
        assert b.ledger.balances[ACCOUNT] == 750
        assert b.ledger.faults() == []


@logs("ledger_unreachable")
async def test_hold_does_not_wait_out_an_outage_and_what_it_got_unseen_goes_back() -> None:
    async with bank() as b:
        b.ledger.lose_after = 1
        b.ledger.lose_before = 0
        asking = asyncio.ensure_future(b.hold(hold(1)))
        await eventually(lambda: b.clock.sleepers > 0)
        assert b.ledger.held[ACCOUNT] == 100  # committed unseen
        b.ledger.lose_before = 2
        b.clock.advance(6.0)  # past the patience, and the database is still away
        with pytest.raises(LedgerUnavailable):
            await asking
        await eventually(lambda: b.clock.sleepers > 0)
        b.clock.advance(1.0)
        await eventually(lambda: b.clock.sleepers > 0 or not b.ledger.holds)
        b.clock.advance(1.0)
        await eventually(lambda: not b.ledger.holds)
        assert b.ledger.faults() == []


async def test_hold_does_not_wait_for_a_database_that_hangs() -> None:
    async with bank() as b:
        b.ledger.gate = asyncio.Event()
        asking = asyncio.ensure_future(b.hold(hold(1)))
        await eventually(lambda: bool(b.writer.unsettled()))
        jump(HOLD_SECONDS)
        with pytest.raises(LedgerUnavailable):
            await asking
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.holds == {}
        assert b.ledger.faults() == []


async def test_hold_given_up_before_it_was_sent_takes_nothing_from_the_others() -> None:
    async with bank(balance=100) as b:
        b.ledger.gate = asyncio.Event()
        b.wallets.record(facts(1), outcome(0, "rejected"))  # under way, and hangs
        await eventually(lambda: bool(b.writer.unsettled()))
        late = asyncio.ensure_future(b.hold(hold(2)))
        await asyncio.sleep(0)
        jump(HOLD_SECONDS)
        with pytest.raises(LedgerUnavailable):
            await late
        wanted = asyncio.ensure_future(b.hold(hold(3)))  # there is money for one
        await asyncio.sleep(0)
        b.ledger.gate.set()
        await wanted
        assert set(b.ledger.holds) == {facts(3).call_id}
        assert b.ledger.faults() == []


@logs("ledger_batch_failed", "ledger_message_refused", "settlement_quarantined")
async def test_message_the_database_refuses_does_not_hold_up_the_others() -> None:
    async with bank(balance=10_000) as b:
        await b.hold(hold(1))
        await b.hold(hold(2))
        poisoned = b.ledger.apply

        def refuse_two(*args: Any, **more: Any) -> Any:
            if any(UUID(s["call_id"]) == UUID(int=2) for s in args[0]):
                raise StatementRefused("22003", "out of range")
            return poisoned(*args, **more)

        b.ledger.apply = refuse_two  # type: ignore[method-assign]
        b.wallets.settle(facts(1), outcome(1))
        b.wallets.settle(facts(2), outcome(2))
        await b.wallets.settled(ACCOUNT)
        assert UUID(int=1) not in b.ledger.holds
        assert UUID(int=2) in b.ledger.holds
        assert set(b.ledger.quarantine) == {UUID(int=2)}
        kept = decode(b.ledger.quarantine[UUID(int=2)]["message"])
        assert (kept.facts.call_id, kept.outcome.cost_nano_usd) == (UUID(int=2), 2)
        assert UUID(int=2).int in b.writer.unsettled()  # its hold is no leak


@logs("ledger_batch_failed", "ledger_message_refused")
async def test_hold_that_is_refused_comes_again_with_its_settlement() -> None:
    """Without a hold a settlement moves nothing: the answer would be free."""
    async with bank(balance=10_000) as b:
        for number in range(1, 4):  # from then on it is leased
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(1))
            await b.wallets.settled(ACCOUNT)
        assert b.wallets.hold(hold(4)) is None
        healthy = b.ledger.apply

        def refuse_admitted(*args: Any, **more: Any) -> Any:
            if more["written"]:
                raise StatementRefused("22003", "out of range")
            return healthy(*args, **more)

        b.ledger.apply = refuse_admitted  # type: ignore[method-assign]
        await b.wallets.settled(ACCOUNT)  # writes what was admitted
        assert UUID(int=4) not in b.ledger.holds
        assert UUID(int=4).int in b.writer.unsettled()
        balance = b.ledger.balances[ACCOUNT]
        b.wallets.settle(facts(4), outcome(70))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances[ACCOUNT] == balance - 70
        assert b.ledger.faults() == []


async def test_available_reads_afresh_only_when_nothing_seems_left() -> None:
    async with bank(balance=0) as b:
        assert await waited(b.wallets.available(ACCOUNT)) == 0
        b.ledger.balances[ACCOUNT] = 500  # topped up by another process
        assert await waited(b.wallets.available(ACCOUNT)) == 500
        b.ledger.balances[ACCOUNT] = 400
        assert (
            await waited(b.wallets.available(ACCOUNT)) == 500
        )  # a yes may be old, the hold decides


@logs("taken_for_dead", "ledger_unreachable")
async def test_process_taken_for_dead_holds_under_another_id() -> None:
    """What else its batch says is done at once; the holds are not lost, and not made twice."""
    async with bank() as b:
        await b.hold(hold(1))
        b.ledger.buried = {"p", "p.2"}
        b.ledger.lose_after = 1  # it learns of it only from the batch that is sent again
        b.wallets.settle(facts(1), outcome(250))
        request = asyncio.ensure_future(b.hold(hold(2, 300)))
        await eventually(lambda: b.clock.sleepers > 0)
        b.clock.advance(1.0)
        await request
        assert b.ledger.balances == {ACCOUNT: 750}
        assert b.ledger.held == {ACCOUNT: 300}
        assert [entry[3] for entry in b.ledger.entries if entry[2] is not None] == [
            "hold",
            "settle",
            "hold",
        ]


async def test_true_settlement_counts_whichever_is_first_in_a_batch() -> None:
    async with bank() as b:
        for number in (1, 2):
            await b.hold(hold(number))
        b.wallets.recover(facts(1), outcome(10, "interrupted"))
        b.wallets.settle(facts(1), outcome(250))
        b.wallets.settle(facts(2), outcome(250))
        b.wallets.recover(facts(2), outcome(10, "interrupted"))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances == {ACCOUNT: 500}
        assert b.ledger.corrections == {}
        assert b.ledger.faults() == []


@logs("recovery_corrected")
async def test_corrected_calls_are_counted_and_logged() -> None:
    async with bank() as b:
        await b.hold(hold(1))
        b.wallets.recover(facts(1), outcome(10, "interrupted"))
        await b.wallets.settled(ACCOUNT)
        b.wallets.recover(facts(1), outcome(20, "interrupted"))  # two who recover: no harm
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances == {ACCOUNT: 990}
        b.wallets.settle(facts(1), outcome(250))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances == {ACCOUNT: 750}
        assert await waited(b.wallets.available(ACCOUNT)) == 750
        page = b.writer.metrics.render("text/plain")[0].decode()
        assert "gw_recoveries_corrected_total 1.0" in page
        assert "gw_settle_noops_total 0.0" in page
        assert b.ledger.faults() == []


@cases("channel", None, "one", 'quo"ted', "back\\slash", "ümlaut, comma", "")
@cases("cost", None, 0, 123)
def test_what_a_plain_call_cost_stands_in_its_row_as_any_value(
    channel: str | None, cost: int | None
) -> None:
    plain = settle(1, 7, upstream_cost_nano_usd=cost, channel_id=channel)
    _, _, _, rows, *_ = parameters("p", None, [plain], Batch(settlements=[plain]))
    assert isinstance(rows, str)
    ((*_, upstream_cost, channel_id, _, _),) = read_rows(rows)
    assert (upstream_cost, channel_id) == (None if cost is None else str(cost), channel)


def claiming(number: int, key: str = "k", fingerprint: bytes = b"one") -> Hold:
    return replace(hold(number), claim=Claim(key=key, fingerprint=fingerprint))


def kept(body: bytes = b"{}") -> KeptResponse:
    return KeptResponse(status=200, headers=(("Content-Type", "application/json"),), body=body)


async def state(b: Bank, number: int, **claim: Any) -> str:
    with pytest.raises(KeyTaken) as taken:
        await b.hold(claiming(number, **claim))
    return taken.value.state


async def test_key_claimed_for_a_client_that_left_is_free_again() -> None:
    async with bank() as b:
        b.ledger.gate = asyncio.Event()
        request = asyncio.create_task(b.hold(claiming(1)))
        await eventually(lambda: not b.writer.is_idle)
        request.cancel()
        await asyncio.wait([request])
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.claims.rows == {}
        await b.hold(claiming(2))


@logs("ledger_unreachable")
async def test_key_claimed_unseen_by_a_lost_database_is_free_again() -> None:
    async with bank() as b:
        b.ledger.lose_after = 1  # committed, and nobody heard of it
        request = asyncio.create_task(b.hold(claiming(1)))
        await eventually(lambda: bool(b.ledger.claims.rows))
        b.ledger.lose_before = 1
        b.clock.advance(6.0)
        with pytest.raises(LedgerUnavailable):
            await request
        while b.ledger.claims.rows:
            b.clock.advance(1.0)
            await asyncio.sleep(0)
        await b.hold(claiming(2))
        assert b.ledger.faults() == []


@logs("ledger_batch_failed")
async def test_answer_that_the_database_refuses_does_not_keep_the_call_from_being_settled() -> None:
    async with bank() as b:
        await b.hold(claiming(1))
        b.ledger.refuses_replies = True
        b.wallets.settle(facts(1), outcome(40), claim_end=kept())
        assert await state(b, 2) == "too_large"
        assert (b.ledger.balances[ACCOUNT], b.ledger.held[ACCOUNT]) == (960, 0)
        assert b.ledger.faults() == []


async def test_batch_takes_only_so_many_bytes_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RESPONSE_BYTES_MAX", 100)

    async with bank() as b:
        for number in range(5):
            await b.hold(claiming(number, key=f"k{number}"))
        b.ledger.batches.clear()
        for number in range(5):
            b.wallets.settle(facts(number), outcome(1), claim_end=kept(b"x" * 60))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.batches == [2, 2, 1]


def test_answers_stay_out_of_the_log() -> None:
    assert "secret picture" not in repr(kept(b"secret picture"))
