"""What the processes of one gateway read through their parent."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.parent import shared_cache
from actors.parent.link import ParentLink, ParentUnavailable
from actors.parent.protocol import RESPONSE_BYTES_MAX, LineBuffer
from actors.parent.server import ParentServer
from actors.parent.shared_cache import SharedCache
from gw.api.logs.summary_cache import SummaryCache
from tests.support.aio import eventually
from tests.support.clock import FakeClock


@given(st.lists(st.binary(max_size=5).map(lambda part: part.replace(b"\n", b"-"))), st.data())
def test_lines_are_the_same_in_any_pieces(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    buffer = LineBuffer()
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += buffer.feed(stream[:size])
        stream = stream[size:]
    assert found == lines
    assert buffer.size == len(b"rest")


@asynccontextmanager
async def two_links(server: ParentServer) -> AsyncIterator[list[ParentLink]]:
    links = []
    for _ in range(2):
        ours, theirs = socket.socketpair()
        await server.attach(ours)
        links.append(ParentLink(theirs))
        await links[-1].open()
    try:
        yield links
    finally:
        for link in links:
            await link.close()
        await eventually(lambda: server.workers == 0)


def test_minute_ends_with_the_first_answer_of_the_next() -> None:
    kept = SharedCache()
    kept.store("q", 1, "old")
    assert kept.store("q", 2, "new") == "new"
    assert kept.store("q", 1, "late") == "late"  # for whoever made it, and for nobody else
    assert (kept.find("q", 1), kept.find("q", 2)) == (None, "new")


def test_answers_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_cache, "ENTRIES_MAX", 3)
    monkeypatch.setattr(shared_cache, "BYTES_MAX", 10)
    kept = SharedCache()
    for number in range(4):
        kept.store(f"q{number}", 1, "x")
    assert (kept.find("q0", 1), kept.find("q3", 1)) == (None, "x")
    kept.store("large", 1, "x" * 9)
    assert (kept.find("q2", 1), kept.find("q3", 1), kept.find("large", 1)) == (None, "x", "x" * 9)


async def test_two_workers_that_ask_at_once_give_the_same_answer() -> None:
    clock = FakeClock()
    async with two_links(ParentServer(clock)) as links:
        caches = [SummaryCache(clock, shared=link) for link in links]
        made: list[int] = []

        async def response() -> bytes:
            made.append(len(made))
            await asyncio.sleep(0.01)
            return f"made {len(made)} ü".encode()

        both = await asyncio.gather(*(cache.get_summary(("a", None), response) for cache in caches))
        assert both[0] == both[1]
        count = len(made)
        third = SummaryCache(clock, shared=links[0])
        assert await third.get_summary(("a", None), response) == both[0]
        assert len(made) == count
        assert await third.get_summary(("b", None), response) != both[0]
        clock.advance(60)
        assert await third.get_summary(("a", None), response) != both[0]


async def test_answer_that_is_too_long_stays_with_its_worker() -> None:
    async with two_links(ParentServer(FakeClock())) as (one, two):
        longest, too_long = b'"' * RESPONSE_BYTES_MAX, b'"' * (RESPONSE_BYTES_MAX + 1)
        assert await one.store("q", 1, longest) == longest
        assert await two.find("q", 1) == longest
        assert await one.store("other", 1, too_long) == too_long
        assert await two.find("other", 1) is None


async def test_worker_whose_parent_has_ended_answers_by_itself() -> None:
    ours, theirs = socket.socketpair()
    link = ParentLink(theirs)
    await link.open()
    ours.close()
    with pytest.raises(ParentUnavailable):
        await link.find("q", 1)

    async def response() -> bytes:
        return b"own"

    assert await SummaryCache(FakeClock(), shared=link).get_summary("q", response) == b"own"
    await link.close()
