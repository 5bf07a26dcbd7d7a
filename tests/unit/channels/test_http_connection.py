"""A connection to an upstream whose transport a test holds: losses, and reading that stops."""

import asyncio
from collections.abc import Callable

from channels.errors import UpstreamLost
from channels.http.connection import WAITING_BYTES_MAX, StaleConnection, UpstreamConnection
from channels.http.connection_pool import TurnWrites
from tests.support.rows import cases
from tests.unit.channels.test_http_every_cut import NoOwner, SlowLine

HEAD = b"POST / HTTP/1.1\r\nHost: upstream\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Owner(NoOwner):
    """Whoever has the connection."""

    def __init__(self) -> None:
        self.idle = 0

    def on_idle(self, connection: UpstreamConnection) -> None:
        self.idle += 1


class Transport(SlowLine):
    """Takes what is written; one that `breaks` finds with the next write that it is closed."""

    breaks = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.is_open = not self.breaks


def connected() -> tuple[UpstreamConnection, Owner, Transport]:
    owner, transport = Owner(), Transport()
    connection = UpstreamConnection(owner)
    connection.connection_made(transport)
    return connection, owner, transport


@cases("earlier, fault", (1, StaleConnection), (0, UpstreamLost))
def test_request_that_a_closed_transport_took_was_not_sent(
    earlier: int, fault: type[Exception]
) -> None:
    connection, _, transport = connected()
    for _ in range(earlier):
        connection.exchange(HEAD, b"{}")
        connection.data_received(OK)

    transport.breaks = True
    response = connection.exchange(HEAD, b"{}")
    connection.connection_lost(None)

    # Only of a kept one it is likely that another connection does better.
    assert type(response.fault) is fault


async def test_requests_of_a_turn_are_written_at_its_end() -> None:
    written: list[bytes] = []
    writes = TurnWrites()
    for body in (b"first", b"second"):
        connection, owner, transport = connected()
        owner.on_joined, transport.write = writes.add, written.append  # type: ignore[method-assign,assignment]
        connection.exchange(HEAD, body)
    assert written == []
    await asyncio.sleep(0)
    assert written == [HEAD + b"first", HEAD + b"second"]


@cases("loses", UpstreamConnection.eof_received, lambda one: one.data_received(OK))
async def test_what_a_kept_connection_meets_before_its_request_is_written_leaves_that_unsent(
    loses: Callable[[UpstreamConnection], None],
) -> None:
    connection, owner, transport = connected()
    connection.exchange(HEAD, b"{}")
    connection.data_received(OK)
    owner.on_joined, transport.write = TurnWrites().add, None  # type: ignore[method-assign,assignment]
    response = connection.exchange(HEAD, b"{}")
    loses(connection)
    await asyncio.sleep(0)

    assert type(response.fault) is StaleConnection
    assert not transport.is_open
    assert owner.idle == 1


async def test_reading_that_stopped_goes_on_when_what_waited_is_taken() -> None:
    connection, owner, transport = connected()
    size = 2 * WAITING_BYTES_MAX
    response = connection.exchange(HEAD, b"{}")
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    connection.data_received(b"x" * (size - 1))
    assert not transport.is_read

    assert len(await anext(response.chunks())) == size - 1
    assert transport.is_read
    assert not connection.is_reading_paused
    connection.data_received(b"x")
    assert owner.idle == 1


def test_connection_that_is_held_at_the_end_of_its_response_reads_on_for_the_next() -> None:
    connection, owner, transport = connected()
    connection.exchange(HEAD, b"{}")
    size = WAITING_BYTES_MAX + 2
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    connection.data_received(b"x" * (size - 1))
    assert not transport.is_read

    connection.data_received(b"x")

    assert owner.idle == 1
    assert transport.is_read
    assert not connection.is_reading_paused


def test_closed_connection_is_not_read_on() -> None:
    connection, _, transport = connected()
    connection.exchange(HEAD, b"{}")
    size = 2 * WAITING_BYTES_MAX
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    connection.data_received(b"x" * (size - 1))
    transport.abort()

    connection.resume()

    assert not transport.is_read
