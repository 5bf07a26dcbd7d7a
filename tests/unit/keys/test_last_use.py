"""Writing when keys were last used"""

from typing import Any, cast

import pytest

from actors.store.errors import StoreUnavailable
from gw.keys.last_use import LastUse
from gw.keys.store import SQL


class FakeCache:
    def __init__(self) -> None:
        self.uses: dict[str, float] = {}

    @property
    def touched_count(self) -> int:
        return len(self.uses)

    def touched(self, most: int) -> dict[str, float]:
        return {key_id: self.uses.pop(key_id) for key_id in list(self.uses)[:most]}


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

    fetch_all = fetch_one = NotImplemented


async def test_uses_are_written_once_and_a_part_of_many_with_each_beat() -> None:
    cache, database = FakeCache(), FakeStore()
    last_use = LastUse(keys=cast(Any, cache), database=cast(Any, database))

    cache.uses = dict.fromkeys(map(str, range(30_000)), 1.0)
    await last_use.write()
    assert [len(uses) for uses in database.written] == [256, 244]  # a sixtieth of all
    await last_use.write_all()
    assert not cache.uses
    assert sum(map(len, database.written)) == 30_000


async def test_uses_are_kept_while_the_database_is_away() -> None:
    cache, database = FakeCache(), FakeStore()
    last_use = LastUse(keys=cast(Any, cache), database=cast(Any, database))

    database.is_down = True
    for uses in ({"key_1": 1.0, "key_2": 1.0}, {"key_1": 2.0}):
        cache.uses = dict(uses)
        with pytest.raises(StoreUnavailable):
            await last_use.write()
    assert repr(last_use) == "<LastUse 2 pending>"
    database.is_down = False
    await last_use.write()
    assert database.written == [{"key_1": 2.0, "key_2": 1.0}]
    assert repr(last_use) == "<LastUse 0 pending>"
