"""An answer takes its size in memory, be its chunks or its packets ever so small."""

import asyncio
import tracemalloc
from collections.abc import Iterator

import pytest

from channels.http.connection import WAITING_BYTES_MAX, UpstreamConnection
from channels.http.response import PIECES_MAX
from tests.support.aio import run
from tests.support.rows import each
from tests.unit.channels.raw_server import STREAM
from tests.unit.channels.test_http_every_cut import NoOwner, SlowLine

pytestmark = pytest.mark.long

BODY_BYTES = 1024 * 1024
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES


def in_reads(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


TINY = {
    "chunks": (STREAM, b"2\r\nxy\r\n" * (BODY_BYTES // 2) + b"0\r\n\r\n", 65_536),
    "packets": (SIZED, b"xy" * (BODY_BYTES // 2), 100),
}


@each("head, sent, size", TINY.values())
def test_answer_that_is_read_takes_no_more_than_one_and_a_half_of_its_size(
    head: bytes, sent: bytes, size: int
) -> None:
    async def scene() -> tuple[bytes, int]:
        connection = UpstreamConnection(NoOwner())
        line = SlowLine()
        connection.connection_made(line)
        response = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"")
        connection.data_received(head)
        reading = asyncio.ensure_future(response.read(2 * BODY_BYTES))
        tracemalloc.start()
        try:
            for data in in_reads(sent, size):
                while not line.is_read:
                    await asyncio.sleep(0)
                connection.data_received(data)
                await asyncio.sleep(0)
            body = await reading
            return body, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            connection.abort()
            connection.connection_lost(None)

    body, peak = run(scene())
    assert body == b"xy" * (BODY_BYTES // 2)
    assert peak <= 1.5 * BODY_BYTES


async def test_what_waits_of_an_answer_is_a_few_pieces_however_it_came() -> None:
    connection = UpstreamConnection(NoOwner())
    line = SlowLine()
    connection.connection_made(line)
    response = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"")
    connection.data_received(SIZED)
    sent_bytes = 0
    while line.is_read:
        connection.data_received(b"xy")
        sent_bytes += 2
        assert len(response.pieces) <= PIECES_MAX
        assert response.waiting_bytes == sent_bytes <= WAITING_BYTES_MAX + 2
    assert b"".join(response.pieces) == b"xy" * (sent_bytes // 2)
    connection.abort()
    connection.connection_lost(None)
