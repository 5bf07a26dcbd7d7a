"""The cache of summaries: one making for all who ask, until the minute is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gw.api.logs import summary
from gw.api.logs.summary import SummaryCache
from tests.support.aio import run
from tests.support.clock import FakeClock


class Maker:
    """Makes answers that say which they are, when it is let."""

    def __init__(self) -> None:
        self.made = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.fault: Exception | None = None

    async def __call__(self) -> bytes:
        self.made += 1
        number = self.made
        await self.go_on.wait()
        if self.fault is not None:
            raise self.fault
        return b"%d" % number


def scene(body: Callable[[SummaryCache, Maker, FakeClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = FakeClock(now=6000.0 - 1000.0)  # at the beginning of a minute
        await body(SummaryCache(clock), Maker(), clock)

    run(main())


def test_an_answer_holds_until_its_minute_ends() -> None:
    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        assert await cache.get("a", maker) == b"1"
        clock.advance(59.9)
        assert await cache.get("a", maker) == b"1"
        assert await cache.get("b", maker) == b"2"
        clock.advance(0.2)
        assert await cache.get("a", maker) == b"3"

    scene(body)


def test_a_crowd_shares_one_making_and_one_who_leaves_does_not_end_it() -> None:
    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        maker.go_on.clear()
        crowd = [asyncio.ensure_future(cache.get("a", maker)) for _ in range(20)]
        while not maker.made:
            await asyncio.sleep(0)
        crowd[0].cancel()
        maker.go_on.set()
        answers = await asyncio.gather(*crowd, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert answers[1:] == [b"1"] * 19
        assert maker.made == 1

    scene(body)


def test_a_failure_is_told_and_forgotten() -> None:
    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        maker.fault = RuntimeError("down")
        answers = await asyncio.gather(
            *(cache.get("a", maker) for _ in range(3)), return_exceptions=True
        )
        assert answers == [maker.fault] * 3
        maker.fault = None
        assert await cache.get("a", maker) == b"2"

    scene(body)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "ENTRIES_MAX", 2)

    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        for question in "abc":
            await cache.get(question, maker)
        assert repr(cache) == "<SummaryCache 2 answers of minute 100>"
        assert await cache.get("c", maker) == b"3"
        assert await cache.get("a", maker) == b"4"

    scene(body)
