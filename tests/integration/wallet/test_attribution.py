"""For whom calls were made, in their rows: what is stored, what is `other`, what it adds up to."""

import asyncio
from typing import Any

import pytest

from actors.partitions import SQL, build_spans
from actors.store.database import Database
from actors.store.session import Statements
from actors.wallet import ledger
from actors.wallet.attribution import Attribution
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import CallFacts, Hold, Record, Settle
from actors.wallet.rows import encode_settlement
from actors.wallet.stored_values import StoredValues
from actors.wallet.verify import verify
from tests.integration.money import PROCESS, open_account
from tests.support.ledger_values import facts, outcome

DAY = 86_400.0
MIDNIGHT = 20_500 * DAY
ALL = Attribution(
    end_user='Zoë "1" \\', session="ab" * 8, run="r/1", labels={"team": "a", "x": "1"}
)


def of(number: int, attribution: Attribution | None = ALL, **more: Any) -> CallFacts:
    return facts(number, attribution=attribution, **more)


def ended(call: CallFacts, at: float = MIDNIGHT + 1, **more: Any) -> Settle:
    tokens = {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2}
    return encode_settlement(call, outcome(5, created_at=at, **tokens, **more))


def refused(call: CallFacts, at: float = MIDNIGHT + 1) -> Record:
    return Record(facts=call, outcome=outcome(0, "rejected", created_at=at, error_code="e"))


async def made(database: Database, *calls: CallFacts, most: int = 20_000, **more: Any) -> Applied:
    """Hold and settle some calls in one batch, with a memory of its own, as another process."""
    await apply(
        database, PROCESS, Batch(holds=[Hold(facts=one, amount_nano_usd=9) for one in calls])
    )
    batch = Batch(settlements=[ended(one, **more) for one in calls])
    return await apply(database, PROCESS, batch, values=StoredValues(lambda: most))


async def rows(database: Database, what: str = "attribution") -> list[Any]:
    found = await database.fetch_all(f"SELECT {what} FROM call_logs ORDER BY request_id")
    return [row[0] for row in found]


async def sums(database: Database, what: str) -> dict[tuple[int, str], int]:
    found = await database.fetch_all(
        "SELECT 1, value, sum(requests)::bigint FROM call_log_attributed WHERE what = %(what)s"
        " GROUP BY 2 UNION ALL"
        " SELECT hours, value, sum(requests)::bigint FROM call_log_attributed_spans"
        " WHERE what = %(what)s AND key_id = '' GROUP BY 1, 2",
        {"what": what},
    )
    return {(hours, value): requests for hours, value, requests in found}


async def test_every_kind_of_row_says_whom_its_call_was_for(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        ordinary, media, silent = of(1), of(2, protocol="images", made_id="x"), of(3, None)
        await made(database, ordinary, media, silent)
        await apply(database, PROCESS, Batch(records=[refused(of(4)), refused(of(5, None))]))
        whole = {
            "end_user": ALL.end_user,
            "session": ALL.session,
            "run": ALL.run,
            "labels": dict(ALL.labels),
        }
        assert await rows(database) == [whole, whole, None, whole, None]
        assert await sums(database, "end_user") == {(1, ALL.end_user): 3}
        assert await sums(database, "label.team") == {(1, "a"): 3}
        assert (await verify(database)).faults == []
        # A row without it has the digest of a program that knew of none.
        before = await database.fetch_all(
            "SELECT l.digest = call_log_digest(l.account_id, l.key_id, l.request_id, l.created_at,"
            " l.submitted_at, l.protocol, l.model, l.status, l.error_code, l.error_message,"
            " l.input_tokens, l.output_tokens, l.cached_tokens, l.unit_count, l.unit_type,"
            " l.cost_nano_usd, l.latency_ms, l.task_id, l.result_urls, l.result_expires_at,"
            " l.attempts, l.upstream_cost_nano_usd, l.channel_id, l.detail)"
            " FROM call_logs l ORDER BY request_id"
        )
        assert [row[0] for row in before] == [False, False, True, False, True]
        await database.execute("UPDATE call_logs SET attribution = NULL WHERE task_id = 'x'")
        assert {one["invariant"] for one in (await verify(database)).faults} >= {
            "row_is_as_written"
        }


async def test_an_open_hold_keeps_it_for_whoever_settles_the_call(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        holds = [Hold(facts=of(1), amount_nano_usd=9), Hold(facts=of(2, None), amount_nano_usd=9)]
        await apply(database, PROCESS, Batch(holds=holds))
        found = await database.fetch_all("SELECT call_id::text, call FROM holds ORDER BY call_id")
        kept = [ledger.facts_of_hold(call, "acct_a", "key_a", None, what) for call, what in found]
        assert kept == [of(1), of(2, None)]


async def test_more_values_than_a_day_stores_are_other_whoever_writes_them(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        users = [Attribution(end_user=f"u{n}", labels={"k": f"v{n % 2}"}) for n in range(6)]
        first = await made(database, *(of(n, users[n]) for n in range(3)), most=4)
        assert first.others == []
        # Another process, whose batch has one that is known, one that fits and one that does not.
        batch = [of(10, users[0]), of(11, users[3]), of(12, users[4]), of(13, users[4])]
        second = await made(database, *batch, most=4)
        assert second.others == ["end_user", "end_user"]
        records = Batch(records=[refused(of(20, users[5])), refused(of(21, users[1]))])
        third = await apply(database, PROCESS, records, values=StoredValues(lambda: 4))
        assert third.others == ["end_user"]
        stored = [one["end_user"] for one in await rows(database)]
        assert stored == ["u0", "u1", "u2", "u0", "u3", "other", "other", "other", "u1"]
        assert {one["labels"]["k"] for one in await rows(database)} == {"v0", "v1"}
        assert (await sums(database, "end_user"))[1, "other"] == 3
        # The next day begins anew; each kind counts for itself, and each label's key.
        await made(
            database,
            of(
                30,
                users[5],
            ),
            most=4,
            at=MIDNIGHT + DAY,
        )
        labels = {f"k{n}": f"v{n}" for n in range(8)}
        many = Attribution(run="r", session="ab" * 8, labels=labels)
        assert (await made(database, of(31, many), most=1)).others == []
        assert (await verify(database)).faults == []


async def test_a_value_that_is_other_is_so_in_a_row_with_errors_too(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await made(database, of(1, Attribution(labels={"a.b": "1"})), most=1)
        failed = of(2, Attribution(run="r", labels={"a.b": "2"}))
        await apply(database, PROCESS, Batch(holds=[Hold(facts=failed, amount_nano_usd=9)]))
        end = encode_settlement(
            failed, outcome(0, "error", created_at=MIDNIGHT, error_code="upstream_error")
        )
        found = await apply(
            database, PROCESS, Batch(settlements=[end]), values=StoredValues(lambda: 1)
        )
        assert found.others == ["label.a.b"]
        assert (await rows(database))[1] == {"run": "r", "labels": {"a.b": "other"}}
        assert await rows(database, "error_code") == [None, "upstream_error"]
        assert (await verify(database)).faults == []


async def test_a_process_asks_for_no_value_twice(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        values = StoredValues(lambda: 2)
        for number in (1, 2):
            record = refused(of(number, Attribution(run=f"r{number}")))
            assert len(values.unknown([], [record])) == 1
            await apply(database, PROCESS, Batch(records=[record]), values=values)
            assert values.unknown([], [record]) == {}
        late = refused(of(3, Attribution(run="r3")))
        await apply(database, PROCESS, Batch(records=[late]), values=values)
        assert len(values.unknown([], [late])) == 1  # it may fit on another day


@pytest.mark.parametrize("is_built", [False, True])
async def test_a_correction_moves_the_sums_and_keeps_whom_it_was_for(
    database_url: str, is_built: bool
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        call = of(1)
        await apply(database, PROCESS, Batch(holds=[Hold(facts=call, amount_nano_usd=9)]))
        recovered = outcome(1, "interrupted", created_at=MIDNIGHT, error_code="gateway_restarted")
        late = encode_settlement(call, recovered, is_recovery=True)
        await apply(database, PROCESS, Batch(settlements=[late]), values=StoredValues(lambda: 9))
        if is_built:
            assert await build_all(database) == 9
        await apply(database, PROCESS, Batch(settlements=[ended(call, MIDNIGHT + 9)]))
        found = await database.fetch_all(
            "SELECT DISTINCT what, requests, cost_nano_usd, input_tokens FROM call_log_attributed"
            " ORDER BY 1"
        )
        kinds = ("end_user", "label.team", "label.x", "run", "session")
        assert found == [(what, 1, 5, 7) for what in kinds]
        assert (await verify(database)).faults == []
        await database.execute("DELETE FROM call_logs")
        assert await sums(database, "run") == {}


async def test_a_day_that_is_over_is_added_up_once_and_takes_what_comes_late(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await made(database, of(1), of(2), at=MIDNIGHT + 1)
        await made(database, of(3), at=MIDNIGHT + DAY)
        assert await sums(database, "run") == {(1, "r/1"): 3}
        assert await build_spans(database) == 2  # of few values by the day alone
        await made(database, of(6), at=MIDNIGHT + DAY + 5)
        assert await build_all(database) == 2 * 8
        assert await build_spans(database) == 0
        assert await sums(database, "run") == {(hours, "r/1"): 4 for hours in (1, 3, 24)}
        assert (await verify(database)).faults == []
        late = Attribution(run="late", labels={"new": "1"})
        await made(database, of(4), of(5, late), at=MIDNIGHT + 7)
        assert await sums(database, "run") == {
            **{(hours, "r/1"): 5 for hours in (1, 3, 24)},
            **{(hours, "late"): 1 for hours in (1, 3, 24)},
        }
        assert (await sums(database, "label.new")) == {(hours, "1"): 1 for hours in (1, 3, 24)}
        assert (await verify(database)).faults == []
        await database.execute("DELETE FROM call_logs")
        assert await sums(database, "run") == {}


async def build_all(database: Database) -> int:
    """Add up the spans that are over, as those of accounts with many values; return how many."""
    await database.execute("UPDATE attribution_counts SET stored = 10000")
    return await build_spans(database)


async def build(database: Statements) -> bool:
    return bool((await database.fetch_all(SQL["build"]))[0][0])


async def test_a_span_that_is_being_added_up_holds_up_only_rows_of_that_span(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await made(database, of(1), at=MIDNIGHT + DAY - 1)
        await database.execute("UPDATE attribution_counts SET stored = 10000")
        await database.execute(SQL["begin"], ("acct_a",))
        async with database.transaction() as late:
            midnight = "timestamptz 'epoch' + %s * interval '1 second'"
            await late.execute(f"SELECT attributed_await('{{acct_a}}', {midnight})", (MIDNIGHT,))
            assert not await build(database)  # a batch has a row of it
        async with database.transaction() as builder:
            while await build(builder):
                pass
            await made(database, of(2), at=MIDNIGHT + DAY)
            latecomer = asyncio.create_task(made(database, of(3), at=MIDNIGHT + DAY - 2))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while await database.fetch_one(waiting) == (0,):
                assert not latecomer.done()
                await asyncio.sleep(0.01)
        await latecomer
        assert await sums(database, "run") == {(1, "r/1"): 3, (3, "r/1"): 2, (24, "r/1"): 2}
        assert (await verify(database)).faults == []


async def test_a_day_of_now_is_not_over(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        ((now,),) = await database.fetch_all("SELECT extract(epoch FROM now())::float8")
        await made(database, of(1), at=now)
        await build_all(database)
        assert (await sums(database, "run")).keys() == {(1, "r/1")}
