"""Processes that wait for each other's settlements, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from actors.process import ProcessIdentity, register
from actors.store.database import Database
from actors.wallet.neighbours import TIMEOUT_SECONDS, Neighbours
from tests.support.aio import eventually, jump


@dataclass
class Neighbour:
    """A neighbour that lives; what it knows of any account is written once `written` is set."""

    neighbours: Neighbours
    requested: list[str]
    written: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def neighbour(
    url: str, process_id: str, *, responses: bool = True
) -> AsyncIterator[Neighbour]:
    async with Database(url) as database:

        async def settled(account_id: str) -> None:
            found.requested.append(account_id)
            await found.written.wait()

        who = ProcessIdentity(process_id, "host", "boot", 1)
        neighbours = Neighbours(
            database=database,
            identity=who,
            settled=settled,
            give_back=settled,
            stop_leasing=lambda _account: None,
        )
        found = Neighbour(neighbours, [])
        await found.neighbours.start()
        await register(database, who)
        answering = asyncio.create_task(found.neighbours.run() if responses else asyncio.sleep(0))
        try:
            yield found
        finally:
            answering.cancel()
            await asyncio.wait([answering])


async def test_every_process_is_waited_for(database_url: str) -> None:
    async with (
        neighbour(database_url, "proc_a") as a,
        neighbour(database_url, "proc_b") as b,
        neighbour(database_url, "proc_c") as c,
    ):
        a.written.set()
        waiting = [
            asyncio.create_task(a.neighbours.settled(name)) for name in ("one", "two", "one")
        ]
        await eventually(lambda: bool(b.requested and c.requested), what="both asked")
        c.written.set()
        await eventually(lambda: set(c.requested) == {"one", "two"}, what="all asked")
        assert not any(task.done() for task in waiting)
        b.written.set()
        await asyncio.gather(*waiting)
        assert sorted(a.requested) == ["one", "one", "two"]  # for itself; nobody asks itself


async def test_one_that_has_just_died_is_waited_for_a_moment(database_url: str) -> None:
    async with (
        neighbour(database_url, "proc_a") as a,
        neighbour(database_url, "proc_b", responses=False),
    ):
        a.written.set()
        waiting = asyncio.create_task(a.neighbours.settled("one"))
        await eventually(lambda: "1 asked" in repr(a.neighbours), what="the question")
        jump(TIMEOUT_SECONDS)
        await waiting
        assert "0 asked" in repr(a.neighbours)
