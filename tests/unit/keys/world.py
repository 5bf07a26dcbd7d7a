"""A cache of keys with everything around it under the control of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gw.keys.cache import KeyCache
from gw.keys.principal import KeyRefused
from tests.support.aio import run
from tests.support.clock import FakeClock
from tests.unit.keys.fakes import HASHER, CacheCounter, FakeKeyTable, Row

KEY = "sk-platform-" + "a" * 64
OTHER = "sk-platform-" + "b" * 64


class World:
    """A cache with everything around it."""

    def __init__(self, *rows: Row, **options: Any) -> None:
        self.table = FakeKeyTable(*(rows or (Row("key_1", KEY),)))
        self.clock = FakeClock()
        self.counter = CacheCounter()
        self.balances: list[tuple[str, int]] = []
        self.cache = KeyCache(
            self.table,
            HASHER,
            self.clock,
            self.counter,
            on_balance=lambda *told: self.balances.append(told),
            **options,
        )

    @property
    def row(self) -> Row:
        return self.table.rows[0]

    async def name_of(self, text: str = KEY) -> str:
        return (await self.cache.authenticate(text)).key_name

    async def reason_of(self, text: str = KEY) -> str:
        with pytest.raises(KeyRefused) as caught:
            await self.cache.authenticate(text)
        return caught.value.reason

    def begin(self, text: str = KEY) -> asyncio.Task[str]:
        return asyncio.create_task(self.name_of(text))


def in_world(
    *rows: Row, **options: Any
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Make a test of a coroutine that takes a world."""

    def decorate(body: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        def test() -> None:
            async def main() -> None:
                await body(World(*rows, **options))

            run(main())

        return test

    return decorate
