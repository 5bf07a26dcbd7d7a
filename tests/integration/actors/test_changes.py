"""Changes on a real database: heard in order, answered for, and not waited for without end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from actors.changes import (
    CHANGES_CHANNEL,
    HEARD_CHANNEL,
    PART_CHARACTERS,
    REPORT_CHARACTERS_MAX,
    ChangeFeed,
    heard_by_all,
    reports_of_all,
)
from actors.process import ProcessIdentity, register
from actors.store.database import Database
from gw import accounts
from tests.support.aio import eventually
from tests.support.clock import FakeClock


async def beat(database: Database, process_id: str) -> None:
    """Let a process live for as long as the test lasts: nobody repeats its sign of life."""
    await register(database, who(process_id))
    await database.execute(
        "UPDATE processes SET heartbeat_at = now() + interval '1 hour' WHERE id = %s", (process_id,)
    )


def who(process_id: str) -> ProcessIdentity:
    return ProcessIdentity(process_id, "host", "boot", 1)


@asynccontextmanager
async def gateway(
    url: str,
    process_id: str,
    *,
    feeds: list[ChangeFeed] | None = None,
    report: Callable[[], str] | None = None,
) -> AsyncIterator[list[str]]:
    """A process that lives and listens; yields what it has heard."""
    heard: list[str] = []
    async with Database(url) as database:
        feed = ChangeFeed(
            database=database,
            identity=who(process_id),
            clock=FakeClock(),
            # Beside changes, readers of events are told that there are some.
            on_change=lambda change: None if change == "event:" else heard.append(change),
            on_gap=lambda: heard.append("gap"),
            on_heard=lambda at: heard.append(f"heard {at}"),
            report=report,
        )
        if feeds is not None:
            feeds.append(feed)
        await feed.start()
        await beat(database, process_id)
        answering = asyncio.create_task(feed.run())
        try:
            yield heard
        finally:
            answering.cancel()
            await asyncio.wait([answering])


async def test_answer_comes_after_the_change_has_been_heard(database_url: str) -> None:
    async with (
        Database(database_url) as database,
        gateway(database_url, "proc_a") as a,
        gateway(database_url, "proc_b") as b,
    ):
        account = await accounts.create(database, "tests")
        for number in range(20):
            await accounts.change(database, account.id, {"enabled": number % 2 == 0})
            assert await heard_by_all(database, token=f"t{number}", timeout_seconds=30)
            expected = [f"account:{account.id}"] * (number + 2)  # its making was the first
            assert a == b == expected


async def test_echo_comes_to_its_process_alone_after_the_changes_before(database_url: str) -> None:
    feeds: list[ChangeFeed] = []
    async with (
        Database(database_url) as database,
        gateway(database_url, "proc_a", feeds=feeds) as a,
        gateway(database_url, "proc_b", feeds=feeds) as b,
    ):
        account = await accounts.create(database, "tests")
        stated_at = FakeClock().monotonic()
        for feed in feeds:
            await feed.send_echo()
        expected = [f"account:{account.id}", f"heard {stated_at}"]
        await eventually(lambda: a == b == expected)


async def test_process_that_dies_meanwhile_is_waited_for_no_longer(database_url: str) -> None:
    async with Database(database_url) as database, gateway(database_url, "proc_a"):
        await beat(database, "proc_that_dies")
        served = asyncio.Event()
        listener = await database.listen(HEARD_CHANNEL, lambda _: served.set(), lambda: None)
        request = asyncio.create_task(heard_by_all(database, token="t"))
        await served.wait()  # by the other
        await database.execute(
            "UPDATE processes SET heartbeat_at = now() - interval '1 minute'"
            " WHERE id = 'proc_that_dies'"
        )
        assert await request
        await listener.close()


async def test_process_that_did_not_listen_yet_is_called_again(database_url: str) -> None:
    """It registers as it starts, before it can hear a question."""

    async with Database(database_url) as database:
        await beat(database, "proc_late")
        request = asyncio.Event()
        listener = await database.listen(CHANGES_CHANNEL, lambda _: request.set(), lambda: None)
        response = asyncio.create_task(heard_by_all(database, token="t"))
        await request.wait()
        async with gateway(database_url, "proc_late"):
            assert await response
        await listener.close()


async def test_silent_process_is_not_waited_for_without_end(database_url: str) -> None:
    async with Database(database_url) as database, gateway(database_url, "proc_a"):
        await beat(database, "proc_that_hangs")
        assert not await heard_by_all(database, token="t", timeout_seconds=0.1)
        await database.execute(
            "UPDATE processes SET heartbeat_at = now() - interval '1 minute'"
            " WHERE id = 'proc_that_hangs'"
        )
        assert await heard_by_all(database, token="u", timeout_seconds=30)


async def test_reports_of_all_come_whole_and_silent_processes_are_named(database_url: str) -> None:
    """One is longer than a notification, and parts of it are the same."""
    long = "x" * (3 * PART_CHARACTERS) + "end"
    async with (
        Database(database_url) as database,
        gateway(database_url, "proc_a", report=lambda: long),
        gateway(database_url, "proc_b", report=lambda: "short"),
    ):
        reports = await reports_of_all(database, token="t", timeout_seconds=30)
        assert reports == {"proc_a": long, "proc_b": "short"}
        await beat(database, "proc_silent")
        reports = await reports_of_all(database, token="u", timeout_seconds=0.5)
        assert reports == {"proc_a": long, "proc_b": "short", "proc_silent": None}


async def test_report_that_is_too_long_is_given_up(database_url: str) -> None:
    async with (
        Database(database_url) as database,
        gateway(database_url, "proc_a", report=lambda: "x" * (REPORT_CHARACTERS_MAX + 1)),
    ):
        assert await reports_of_all(database, token="t", timeout_seconds=30) == {"proc_a": None}
