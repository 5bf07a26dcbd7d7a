"""The world of the cache of keys."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from actors.store.errors import StoreUnavailable
from gw.keys.cache import KeyCache
from gw.keys.hashing import KeyHasher, legacy_hash
from gw.keys.key_text import shown_prefix
from gw.keys.principal import KeyRefused
from gw.keys.secret import Secret
from gw.keys.store import SQL
from tests.support.aio import run
from tests.support.cached_keys import authenticated
from tests.support.clock import FakeClock

HASHER = KeyHasher(Secret("a secret for tests"))


@dataclass
class Row:
    """One key with its account, free to be changed by a test."""

    key_id: str
    text: str
    account_id: str = "acct_1"
    name: str = "test"
    kind: str = "console"
    agent_id: str | None = None
    allowed_models: list[str] | None = None
    expires_at: datetime | None = None
    account_logs: bool = False
    spend_cap_nano_usd: int | None = None
    rpm_limit: int | None = None
    concurrency_limit: int | None = None
    user: str = "owner"
    agent: dict[str, Any] | None = None
    prices: list[dict[str, Any]] | None = None
    budgets_version: int = 0
    data_demands: list[str] | None = None
    is_revoked: bool = False
    is_enabled: bool = True
    is_account_enabled: bool = True
    is_hash_only: bool = False
    available_nano_usd: int = 1_000

    @property
    def hashes(self) -> tuple[bytes | None, bytes | None]:
        """Its keyed hash, or its plain one when that is all that is known."""
        if self.is_hash_only:
            return None, legacy_hash(self.text)
        return HASHER.lookup_hash(self.text), None

    def has_hash(self, lookup: Collection[bytes], legacy: Collection[bytes]) -> bool:
        """Whether it is one of those that are looked for."""
        own_lookup, own_legacy = self.hashes
        return own_lookup in lookup or own_legacy in legacy

    def columns(self) -> tuple[Any, ...]:
        return (
            *self.hashes,
            self.available_nano_usd,
            self.key_id,
            self.account_id,
            self.name,
            shown_prefix(self.text),
            self.kind,
            self.agent_id,
            self.allowed_models,
            self.expires_at,
            self.account_logs,
            self.spend_cap_nano_usd,
            self.rpm_limit,
            self.concurrency_limit,
            self.user,
            self.agent,
            self.prices,
            self.budgets_version,
            self.data_demands,
            self.is_revoked,
            self.is_enabled,
            self.is_account_enabled,
        )


class HeldRead:
    """A read that waits at both of its ends: before it looks, and before it answers."""

    def __init__(self) -> None:
        self.may_look = asyncio.Event()
        self.may_reply = asyncio.Event()

    def release(self) -> None:
        """Let it go one step further."""
        (self.may_reply if self.may_look.is_set() else self.may_look).set()

    @property
    def is_released(self) -> bool:
        return self.may_reply.is_set()


class FakeKeyTable:
    """What the cache asks of the database."""

    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)
        self.reads = 0
        self.read_sizes: list[int] = []
        self.is_down = False
        self.holds_reads = False
        self.held: list[HeldRead] = []

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        assert sql == SQL["find"]
        self.reads += 1
        held = HeldRead()
        if self.holds_reads:
            self.held.append(held)
            await held.may_look.wait()
        if self.is_down:
            raise StoreUnavailable("down")
        hashes = [_bytea_array(params[name]) for name in ("lookup", "legacy")]
        assert len(hashes[0]) == len(hashes[1])
        self.read_sizes.append(len(hashes[0]))
        found = [row.columns() for row in self.rows if row.has_hash(*hashes)]
        if self.holds_reads:
            await held.may_reply.wait()
        return found

    async def fetch_one(self, sql: str, params: Any = ()) -> tuple[Any, ...] | None:
        raise NotImplementedError

    async def execute(self, sql: str, params: Any = ()) -> int:
        raise NotImplementedError


def _bytea_array(text: str) -> list[bytes]:
    """Read an array of bytes as PostgreSQL does."""
    return [bytes.fromhex(item.strip('"').removeprefix(r"\\x")) for item in text[1:-1].split(",")]


class CacheCounter:
    """How often the cache was asked, and with what success."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0

    def cache(self, *, cache: str, hit: bool) -> None:
        assert cache == "keys"
        self.hits += hit
        self.misses += not hit


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
            on_balance=lambda *result: self.balances.append(result),
            **options,
        )

    @property
    def row(self) -> Row:
        return self.table.rows[0]

    async def name_of(self, text: str = KEY) -> str:
        return (await authenticated(self.cache, text)).key_name

    async def reason_of(self, text: str = KEY) -> str:
        with pytest.raises(KeyRefused) as caught:
            await authenticated(self.cache, text)
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
