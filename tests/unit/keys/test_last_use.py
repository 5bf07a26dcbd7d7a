"""Writing when keys were last used."""

from __future__ import annotations

from typing import Any

import pytest

from actors.store.connection import StoreUnavailable
from gw.keys.cache import LastUse
from gw.keys.store import SQL
from tests.support.aio import run


class FakeCache:
    def __init__(self) -> None:
        self.uses: dict[str, float] = {}

    def touched(self) -> dict[str, float]:
        uses, self.uses = self.uses, {}
        return uses


class FakeStore:
    def __init__(self) -> None:
        self.written: list[Any] = []
        self.is_down = False

    async def execute(self, sql: str, params: Any = ()) -> int:
        assert sql == SQL["write_last_use"]
        if self.is_down:
            raise StoreUnavailable("down")
        self.written.append(dict(zip(params["ids"], params["seconds"], strict=True)))
        return len(params["ids"])

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def fetch_one(self, sql: str, params: Any = ()) -> tuple[Any, ...] | None:
        raise NotImplementedError


def test_uses_are_written_in_one_statement_and_once() -> None:
    cache, database = FakeCache(), FakeStore()
    last_use = LastUse(keys=cache, database=database)

    async def main() -> None:
        await last_use.write()
        assert database.written == []
        cache.uses = {"key_1": 1.0, "key_2": 2.0}
        await last_use.write()
        await last_use.write()

    run(main())
    assert database.written == [{"key_1": 1.0, "key_2": 2.0}]


def test_uses_are_kept_while_the_database_is_away() -> None:
    cache, database = FakeCache(), FakeStore()
    last_use = LastUse(keys=cache, database=database)

    async def main() -> None:
        database.is_down = True
        for uses in ({"key_1": 1.0, "key_2": 1.0}, {"key_1": 2.0}):
            cache.uses = dict(uses)
            with pytest.raises(StoreUnavailable):
                await last_use.write()
        assert repr(last_use) == "<LastUse 2 pending>"
        database.is_down = False
        await last_use.write()

    run(main())
    assert database.written == [{"key_1": 2.0, "key_2": 1.0}]
    assert repr(last_use) == "<LastUse 0 pending>"
