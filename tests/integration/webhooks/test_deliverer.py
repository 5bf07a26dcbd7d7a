"""Events are sent to webhooks: signed, in order, again after failures, by one process at a time."""

import asyncio
import socket
from dataclasses import replace

import pytest

from actors.store.database import Database
from actors.webhooks.lanes import AT_ONCE
from actors.webhooks.signature import new_secret
from actors.webhooks.targets import Targets
from gw.webhooks import table
from tests.support.aio import eventually
from tests.support.logs import ExpectLog
from tests.support.receiver import Answer, Received, Receiver
from tests.support.webhooks import (
    SEALER,
    SETTINGS,
    is_counted,
    made,
    rows,
    sending,
    statuses,
    write,
)


async def all_ended(database: Database, webhook_id: str, count: int) -> None:
    async def have() -> bool:
        found = await statuses(database, webhook_id)
        return len(found) == count and "pending" not in found

    await eventually(have)
    assert await is_counted(database)


async def test_events_are_sent_signed_once_each(database_url: str) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            await write(database, "key.created", count=3)  # before it was made
            webhook_id, secret = await made(database, receiver.url)
            async with sending(database) as process:
                await write(database, "key.created", {"name": "ä"}, count=40)
                process.nudges.written()
                await all_ended(database, webhook_id, 40)
                assert process.count("gw_webhook_deliveries_total", outcome="204") == 40
            found = await rows(database, webhook_id)
            assert {row["last_outcome"] for row in found} == {"204"}
            assert {row["attempts"] for row in found} == {1}
            assert sorted(receiver.ids) == sorted(row["event_id"] for row in found)
            by_id = {row["event_id"]: row["sequence"] for row in found}
            arrived = [by_id[one] for one in receiver.ids]
            # They are sent in order; a receiver of several at once may note a few in another.
            assert all(abs(number - 4 - place) < AT_ONCE for place, number in enumerate(arrived))
            one = receiver.received[0]
            assert one.is_signed_by(secret)
            assert one.headers["content-type"] == "application/json"
            assert one.event == {
                "id": one.id,
                "sequence": by_id[one.id],
                "type": "key.created",
                "timestamp": one.event["timestamp"],
                "account_id": "acct_a",
                "data": {"name": "ä"},
            }


async def test_types_and_accounts_choose(database_url: str) -> None:
    async with Database(database_url) as database:
        await database.execute("INSERT INTO accounts (id, name) VALUES ('acct_b', 'b')")
        with Receiver() as receiver:
            all_of_them, _ = await made(database, receiver.url)
            keys, _ = await made(database, receiver.url, types=["key.*", "call.settled"])
            of_b, _ = await made(database, receiver.url, account_id="acct_b")
            for kind in ("key.created", "key.revoked", "task.ended", "call.settled"):
                await write(database, kind)
                await write(database, kind, account="acct_b")
            async with sending(database):
                for webhook_id, kinds in (
                    (all_of_them, ["key.created", "key.revoked", "task.ended"] * 2),
                    (keys, ["key.created", "key.revoked", "call.settled"] * 2),
                    (of_b, ["key.created", "key.revoked", "task.ended"]),
                ):
                    await all_ended(database, webhook_id, len(kinds))
                    sent = [row["type"] for row in await rows(database, webhook_id)]
                    assert sorted(sent) == sorted(kinds)


async def test_a_failure_is_tried_again_until_dead_and_holds_nothing_up(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhook_deliveries_dead")
    async with Database(database_url) as database:
        with Receiver() as receiver:
            bad: set[str] = set()

            def answer(one: Received) -> Answer:
                return Answer(302 if one.id in bad else 200, {"location": receiver.url})

            receiver.answer = answer
            webhook_id, _ = await made(database, receiver.url)
            async with sending(database) as process:
                await write(database, "key.created", count=2)
                await all_ended(database, webhook_id, 2)
                await write(database, "key.created", count=12)
                await database.execute("SELECT events_number(100)")
                later = await database.fetch_all("SELECT id FROM events WHERE sequence > 2")
                bad.update(row[0] for row in later[:6])
                await all_ended(database, webhook_id, 14)
                assert process.count("gw_webhook_dead_total") == 6
            found = await rows(database, webhook_id)
            dead = [row for row in found if row["status"] == "dead"]
            assert {row["event_id"] for row in dead} == bad
            assert {(row["attempts"], row["last_outcome"]) for row in dead} == {(3, "302")}
            # No redirect was followed, and each attempt has the event's id.
            assert {receiver.ids.count(one) for one in bad} == {3}


@pytest.mark.long
async def test_eight_at_once_and_a_slow_receiver_times_out(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhook_deliveries_dead")
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(seconds=0.2)
            webhook_id, _ = await made(database, receiver.url)
            await write(database, "key.created", count=40)
            async with sending(database):
                await all_ended(database, webhook_id, 40)
            assert receiver.most_under_way == AT_ONCE
        with Receiver() as silent:
            silent.answer = lambda _: Answer(seconds=1.0)
            slow, _ = await made(database, silent.url)
            await write(database, "key.created")
            async with sending(database, replace(SETTINGS, pauses=(), seconds=0.3)):
                await all_ended(database, slow, 1)
            assert (await rows(database, slow))[0]["last_outcome"] == "timeout"


async def test_of_a_response_little_is_read_and_its_status_counts(database_url: str) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(200, body=b"x" * 20_000_000)
            webhook_id, _ = await made(database, receiver.url)
            await write(database, "key.created", count=3)
            async with sending(database):
                await all_ended(database, webhook_id, 3)
            assert await statuses(database, webhook_id) == ["delivered"] * 3


async def test_nobody_there_and_addresses_that_are_refused(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhook_deliveries_dead")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        port = taken.getsockname()[1]
        async with Database(database_url) as database:
            nobody, _ = await made(database, f"http://127.0.0.1:{port}/")
            own, _ = await made(database, f"https://localhost:{port}/")
            async with sending(database, replace(SETTINGS, pauses=())):
                await write(database, "key.created")
                await all_ended(database, nobody, 1)
                assert (await rows(database, nobody))[0]["last_outcome"] == "unreachable"
            async with sending(database, replace(SETTINGS, pauses=(), targets=Targets())):
                await write(database, "key.created")
                await all_ended(database, own, 2)
                assert (await rows(database, own))[1]["last_outcome"] == "refused_address"
                # What was allowed when its URL was written, and is no longer.
                await all_ended(database, nobody, 2)
                assert (await rows(database, nobody))[1]["last_outcome"] == "refused_address"


async def test_410_disables_and_what_waits_goes_on_when_it_is_enabled(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhook_disabled")
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(410)
            webhook_id, _ = await made(database, receiver.url)
            async with sending(database) as process:
                await write(database, "key.created")

                async def is_disabled() -> bool:
                    return not (await table.show(database, webhook_id)).enabled

                await eventually(is_disabled)
                assert (await table.show(database, webhook_id)).disabled_for == "gone"
                await write(database, "key.created")
                assert len(receiver.received) == 1
                receiver.answer = lambda _: Answer()
                await table.change(database, webhook_id, {"enabled": True})
                process.nudges.changed()
                await all_ended(database, webhook_id, 2)
                assert await statuses(database, webhook_id) == ["delivered"] * 2


async def test_five_days_of_failures_disable_where_events_die(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhook_deliveries_dead")
    expect_log("webhook_disabled")
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(500)
            webhook_id, _ = await made(database, receiver.url)
            async with sending(database, replace(SETTINGS, pauses=())):
                await write(database, "key.created")
                await all_ended(database, webhook_id, 1)
                assert (await table.show(database, webhook_id)).enabled
                await database.execute(
                    "UPDATE webhooks SET failing_since = failing_since - interval '5 days'"
                )
                await write(database, "key.created")
                await all_ended(database, webhook_id, 2)
                shown = await table.show(database, webhook_id)
                assert (shown.enabled, shown.disabled_for, shown.dead) == (False, "failing", 2)


async def test_a_queue_is_bounded_and_events_wait_in_the_outbox(database_url: str) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(500)
            webhook_id, _ = await made(database, receiver.url)
            await write(database, "key.created", count=30)
            settings = replace(SETTINGS, pauses=(0.3,) * 50, queue=10)
            async with sending(database, settings) as process:

                async def is_full() -> bool:
                    return (await table.show(database, webhook_id)).pending == 10

                await eventually(is_full)
                await asyncio.sleep(0.5)
                assert await is_full()
                assert len(await rows(database, webhook_id)) == 10
                # They are kept though they are old, until they have been sent.
                await database.execute("UPDATE events SET numbered_at = '2020-01-01'")
                await database.execute("SELECT events_purge(now(), 1000)")
                receiver.answer = lambda _: Answer()
                process.nudges.written()
                await all_ended(database, webhook_id, 30)
            await database.execute("SELECT events_purge(now(), 1000)")
            await database.execute("SELECT webhooks_purge(1000)")
            assert await rows(database, webhook_id) == []
            assert await is_counted(database)


async def test_a_process_that_is_declared_dead_is_taken_over_and_books_nothing(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(seconds=30)
            webhook_id, _ = await made(database, receiver.url)
            await write(database, "key.created", count=20)
            async with sending(database, replace(SETTINGS, seconds=60)) as dead:
                await eventually(lambda: len(receiver.received) == AT_ONCE)
                receiver.answer = lambda _: Answer(200)
                async with sending(database) as heir:
                    await asyncio.sleep(1)
                    assert len(receiver.received) == AT_ONCE  # one at a time has it
                    await database.execute(
                        "SELECT process_bury(%s, %s, NULL)", (dead.identity.id, heir.identity.id)
                    )
                    heir.nudges.changed()
                    await all_ended(database, webhook_id, 20)
                    (claimed,) = await database.fetch_all("SELECT claimed_by, claim FROM webhooks")
                    assert claimed == (heir.identity.id, 2)
                    # Those that the dead one had begun were made again; no more than those.
                    assert len(receiver.received) == 20 + AT_ONCE


@pytest.mark.long
async def test_a_process_that_is_not_confirmed_sends_nothing(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("webhooks_dropped")
    async with Database(database_url) as database:
        with Receiver() as receiver:
            webhook_id, _ = await made(database, receiver.url)
            async with sending(database) as process:
                await write(database, "key.created")
                await all_ended(database, webhook_id, 1)
                process.identity.confirmed_at = float("-inf")
                await write(database, "key.created")
                process.nudges.written()
                await asyncio.sleep(2)
                assert len(receiver.received) == 1
                process.identity.confirmed_at = float("inf")
                await all_ended(database, webhook_id, 2)


async def test_one_that_leaves_gives_back_what_it_has(database_url: str) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            webhook_id, _ = await made(database, receiver.url)
            async with sending(database):
                await write(database, "key.created")
                await all_ended(database, webhook_id, 1)
            assert await database.fetch_all("SELECT claimed_by FROM webhooks") == [(None,)]
            async with sending(database):
                await write(database, "key.created")
                await all_ended(database, webhook_id, 2)


async def test_while_a_secret_is_rotated_both_sign(database_url: str) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            webhook_id, old = await made(database, receiver.url)
            async with sending(database) as process:
                await write(database, "key.created")
                await all_ended(database, webhook_id, 1)
                new = new_secret()
                await table.rotate(database, webhook_id, secret=new, keep_hours=1, sealer=SEALER)
                process.nudges.changed()
                await write(database, "key.created")
                await all_ended(database, webhook_id, 2)
                await table.rotate(database, webhook_id, secret=old, keep_hours=0, sealer=SEALER)
                process.nudges.changed()
                await write(database, "key.created")
                await all_ended(database, webhook_id, 3)
            signed = [(one.is_signed_by(old), one.is_signed_by(new)) for one in receiver.received]
            assert signed == [(True, False), (True, True), (True, False)]
            first = receiver.received[1].headers["webhook-signature"].split(" ")[0]
            alone = replace(
                receiver.received[1],
                headers={**receiver.received[1].headers, "webhook-signature": first},
            )
            assert alone.is_signed_by(new)


async def test_a_deleted_webhook_is_sent_nothing_and_goes_with_its_deliveries(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        with Receiver() as receiver:
            receiver.answer = lambda _: Answer(500)
            webhook_id, _ = await made(database, receiver.url, types=["call.*"])
            assert await database.fetch_all("SELECT name FROM event_call_readers") == [
                (webhook_id,)
            ]
            async with sending(database, replace(SETTINGS, pauses=(0.2,) * 50)) as process:
                await write(database, "call.settled", count=3)
                await eventually(lambda: len(receiver.received) > 3)
                await table.delete(database, webhook_id)
                process.nudges.changed()
                await asyncio.sleep(0.5)
                count = len(receiver.received)
                await asyncio.sleep(0.5)
                assert len(receiver.received) == count
            for left in (2, 1, 0, 0):
                assert len(await rows(database, webhook_id)) == left + 1 or not left
                await database.execute("SELECT webhooks_purge(1)")
                assert len(await rows(database, webhook_id)) == left
            assert await database.fetch_all("SELECT * FROM webhooks") == []
            assert await database.fetch_all("SELECT * FROM event_call_readers") == []
