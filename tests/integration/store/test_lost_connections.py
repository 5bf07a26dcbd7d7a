"""Connections whose other end goes away, and their descriptors."""

import asyncio
import fcntl
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions
from psycopg2.extensions import make_dsn, parse_dsn

from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.store.session import Session
from tests.support.aio import both_loops, eventually

FIELDS = b"SFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0"
LAST_WORDS = b"E" + struct.pack("!i", 4 + len(FIELDS)) + FIELDS
READY = b"Z\0\0\0\5I"


class Relay:
    """Stands between one client and the server, until it dies as a server process does."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._pumps = [
            asyncio.create_task(self._pump(client, server)),
            asyncio.create_task(self._pump(server, client)),
        ]

    async def stop_reading(self) -> None:
        """Let what the client sends lie unread from now on."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.wait(self._pumps)

    def has_unread(self) -> bool:
        """Lies something there that the client has sent?"""
        size = fcntl.ioctl(self._client, termios.FIONREAD, bytes(4))
        return size != bytes(4)

    async def reply_and_die(self) -> None:
        """Hand on the statement and its answer without taking it, and close."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._server, self._client.recv(65_536, socket.MSG_PEEK))
        response = b""
        while not response.endswith(READY):
            response += await loop.sock_recv(self._server, 65_536)
        self._client.send(response)
        self._client.close()

    def die(self) -> None:
        """Send the last words, and close with the rest unread."""
        self._client.send(LAST_WORDS)
        self._client.close()

    @staticmethod
    async def _pump(source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, 65_536):
            await loop.sock_sendall(target, data)


def bound(listener: socket.socket, url: str, folder: Path) -> str:
    """Give `listener` an address of its family; return it in the place of `url`'s."""
    if listener.family == socket.AF_INET:
        listener.bind(("127.0.0.1", 0))
        return make_dsn(url, host="127.0.0.1", port=listener.getsockname()[1])
    path = folder / ".s.PGSQL.5432"
    path.unlink(missing_ok=True)
    listener.bind(str(path))
    return make_dsn(url, host=str(folder), port=5432)


@asynccontextmanager
async def listening(listener: socket.socket, url: str) -> AsyncIterator[asyncio.Future[Relay]]:
    """The relay of the first who connects to `listener`, to the server of `url`."""
    loop = asyncio.get_running_loop()
    given = parse_dsn(url)
    listener.setblocking(False)
    listener.listen()
    with ExitStack() as stack:

        async def first() -> Relay:
            client = stack.enter_context((await loop.sock_accept(listener))[0])
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.setblocking(False)
            await loop.sock_connect(server, f"{given['host']}/.s.PGSQL.{given.get('port', 5432)}")
            return Relay(client, server)

        relay = asyncio.create_task(first())
        try:
            yield relay
        finally:
            if relay.cancel() is False:
                await relay.result().stop_reading()
            await asyncio.wait([relay])


@both_loops
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
async def test_statement_unread_by_a_server_that_dies_with_last_words_fails_at_once(
    empty_url: str, tmp_path: Path, family: socket.AddressFamily
) -> None:
    with socket.socket(family) as listener:
        url = bound(listener, empty_url, tmp_path)
        async with listening(listener, empty_url) as connected, Database(url) as database:
            relay = await connected
            await relay.stop_reading()
            statement = asyncio.create_task(database.fetch_one("SELECT 1"))
            await eventually(relay.has_unread, what="the statement")
            relay.die()
            with pytest.raises(StoreUnavailable, match=r"postmaster exit|closed|reset"):
                await statement


@both_loops
async def test_answer_that_came_before_the_end_is_given_and_the_end_is_known_after(
    empty_url: str, tmp_path: Path
) -> None:
    """One look at the socket finds both, and an error behind them."""
    with socket.socket(socket.AF_UNIX) as listener:
        url = bound(listener, empty_url, tmp_path)
        async with listening(listener, empty_url) as connected:
            database = Database(url)
            session = await database.session()
            relay = await connected
            await relay.stop_reading()
            statement = asyncio.create_task(session.fetch_one("SELECT 7"))
            await eventually(relay.has_unread, what="the statement")
            await relay.reply_and_die()
            assert await statement == (7,)
            await eventually(lambda: session.is_closed, what="the end")
            await database.close()


@both_loops
async def test_address_that_refuses_late_is_followed_by_the_next(empty_url: str) -> None:
    """A host has two addresses; the first lets its client wait, and refuses it then."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        stack.enter_context(socket.create_connection(full.getsockname()))
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", full.getsockname()[1]))
        async with listening(listener, empty_url):
            two = {"host": "a,a", "hostaddr": "127.0.0.1,127.0.0.2"}
            url = make_dsn(empty_url, port=full.getsockname()[1], **two)
            database = Database(url, connect_seconds=30)
            opening = asyncio.create_task(database.open())
            await eventually(lambda: _is_requested(full), what="the first attempt")
            full.close()
            await opening
            assert await database.fetch_one("SELECT 1") == (1,)
            await database.close()


def _is_requested(listener: socket.socket) -> bool:
    """Does a client wait to be let in, beside the one that is?"""
    host, port = listener.getsockname()
    address = f"{socket.htonl(struct.unpack('!I', socket.inet_aton(host))[0]):08X}:{port:04X}"
    table = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    rows = [line.split() for line in table]
    return any((row[2], row[3]) == (address, "02") for row in rows)  # SYN_SENT


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
