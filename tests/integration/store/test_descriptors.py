"""The number of a lost connection's descriptor, which is anybody's as soon as libpq has closed it.

A thread that opens a file at that moment gets it, and when that is closed another connection does.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from functools import partial

import psycopg2
import pytest
from psycopg2 import extensions

from actors.store.database import Database, Session
from tests.support.aio import both_loops, eventually


class Overtaken(extensions.connection):
    """A connection the number of whose descriptor is taken the moment that it is lost."""

    file_number: int  # of an open file
    taken: list[int]

    def poll(self) -> int:
        number = self.fileno()
        try:
            return int(super().poll())
        except psycopg2.Error:
            self.taken.append(fcntl.fcntl(self.file_number, fcntl.F_DUPFD, number))
            raise


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers that were taken from the connections made meanwhile; each is an open file."""
    numbers: list[int] = []
    connect = partial(psycopg2.connect, connection_factory=Overtaken)
    with open(os.devnull, "rb") as file, monkeypatch.context() as patched:
        patched.setattr(Overtaken, "file_number", file.fileno(), raising=False)
        patched.setattr(Overtaken, "taken", numbers, raising=False)
        patched.setattr("aiopg.connection.psycopg2.connect", connect)
        yield numbers


def number_of(session: Session) -> int:
    """The number of its descriptor."""
    number: int = session._connection._aiopg.raw.fileno()
    return number


@both_loops
async def test_number_of_a_lost_connection_may_become_anybodys(
    empty_url: str, taken: list[int]
) -> None:
    async with Database(empty_url) as database:
        idle = await database.fetch_one("SELECT pg_backend_pid()")
        assert idle is not None
        sessions = [await database.session()]
        await sessions[0].execute("SELECT pg_terminate_backend(%s)", idle)
        await eventually(lambda: bool(taken), what="the loss of the idle connection")
        number = taken.pop()
        os.close(number)
        while number_of(sessions[-1]) != number:
            sessions.append(await database.session())
        assert await database.fetch_one("SELECT 1") == (1,)  # the lost one is forgotten by now
        for session in sessions:
            assert await session.fetch_one("SELECT 1") == (1,)
    assert not taken


@both_loops
async def test_connection_that_is_closed_twice_leaves_the_next_one_with_its_number_alone(
    empty_url: str,
) -> None:
    async with Database(empty_url) as database:
        closed = await database.session()
        number, connection = number_of(closed), closed._connection
        await closed.close()
        sessions = [await database.session()]
        while number_of(sessions[-1]) != number:
            sessions.append(await database.session())
        connection.close()
        for session in sessions:
            assert await session.fetch_one("SELECT 1") == (1,)
