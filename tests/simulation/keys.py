"""Keys and accounts of the simulation: their tables, and who is told when they change.

A push goes out with the change that it tells of and reaches each listener in the order of the
commits, some time later; a listener whose connection was lost is told that it has missed some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from actors.changes import CHANGES_CHANNEL, HEARD_CHANNEL
from actors.changes import SQL as CHANGES_SQL
from actors.store.errors import StoreUnavailable
from actors.wallet.neighbours import CHANNEL as NEIGHBOURS_CHANNEL
from gw.accounts import SQL as ACCOUNT_SQL
from gw.keys.key import KeyRecord
from gw.keys.store import SQL as KEY_SQL
from tests.unit.keys.fakes import FakeKeyTable, Row

BACKOFF_SECONDS = (0.05, 1.0)
LIMITS = ("rpm_limit", "concurrency_limit")


@dataclass
class StoredKey(Row):
    """A key whose text nobody has stored."""

    lookup_hash: bytes = b""

    @property
    def hashes(self) -> tuple[bytes | None, bytes | None]:
        return self.lookup_hash, None


@dataclass
class Tenant:
    """What an account's keys have of it."""

    rpm_limit: int | None = None
    concurrency_limit: int | None = None


class KeyTables:
    """The rows of keys and accounts, by the statements that `gw/keys` and `gw/accounts` send."""

    def __init__(
        self, available: Callable[[str], int], budgets_version: Callable[[str], int]
    ) -> None:
        self._available = available
        self._budgets_version = budgets_version
        self.table = FakeKeyTable()
        self.tenants: dict[str, Tenant] = {}
        channels = (CHANGES_CHANNEL, HEARD_CHANNEL, NEIGHBOURS_CHANNEL)
        self.listeners: dict[str, list[Subscription]] = {channel: [] for channel in channels}

    async def fetch_all(self, sql: str, params: Any) -> list[tuple[Any, ...]] | None:
        """Run a statement, if it is one of these."""
        if sql == KEY_SQL["find"]:
            for row in self.table.rows:
                row.available_nano_usd = self._available(row.account_id)
                row.budgets_version = self._budgets_version(row.account_id)
                tenant = self.tenants[row.account_id]
                row.rpm_limit, row.concurrency_limit = tenant.rpm_limit, tenant.concurrency_limit
            return await self.table.fetch_all(sql, params)
        if sql == KEY_SQL["show"]:
            columns = fields(KeyRecord)
            return [
                tuple(getattr(row, column.name, None) for column in columns)
                for row in self._rows(params[0])
            ]
        for name, channel in (("send", CHANGES_CHANNEL), ("answer", HEARD_CHANNEL)):
            if sql == CHANGES_SQL[name]:
                payloads = params[0] if name == "answer" else [params[0]]
                for payload in payloads:
                    self.push(channel, payload)
                return [("",)]
        return None

    def execute(self, sql: str, params: Any) -> int | None:
        """Run a statement, if it is one of these; how many rows it touched."""
        if sql == KEY_SQL["insert"]:
            self.insert(params)
        elif sql == KEY_SQL["revoke"]:
            return self._change(self._rows(params[0]), is_revoked=True)
        elif sql == KEY_SQL["change"]:
            assert params["set_enabled"]
            rows = [row for row in self._rows(params["id"]) if not row.is_revoked]
            return self._change(rows, is_enabled=params["enabled"])
        elif sql == ACCOUNT_SQL["change"]:
            tenant = self.tenants[params["id"]]
            for name in LIMITS:
                if params[f"set_{name}"]:
                    setattr(tenant, name, params[name])
            self.push(CHANGES_CHANNEL, f"account:{params['id']}")
        elif sql != KEY_SQL["write_last_use"]:
            return None
        return 1

    def insert(self, key: Mapping[str, Any]) -> None:
        """A new key, unless the statement comes a second time."""
        if self._rows(key["id"]):
            return
        self.table.rows.append(
            StoredKey(
                key_id=key["id"],
                text="",
                account_id=key["account_id"],
                expires_at=key["expires_at"],
                spend_cap_nano_usd=key["spend_cap_nano_usd"],
                lookup_hash=key["lookup_hash"],
            )
        )
        self.push(CHANGES_CHANNEL, f"key:{key['id']}")

    def disconnect(self) -> None:
        """Every connection that listens is lost."""
        for listeners in self.listeners.values():
            for one in list(listeners):
                one.lose()

    def _rows(self, key_id: str) -> list[Row]:
        return [row for row in self.table.rows if row.key_id == key_id]

    def _change(self, rows: Sequence[Row], **columns: Any) -> int:
        for row in rows:
            for name, value in columns.items():
                setattr(row, name, value)
            self.push(CHANGES_CHANNEL, f"key:{row.key_id}")
        return len(rows)

    def push(self, channel: str, payload: str) -> None:
        """A change goes out to everybody who listens."""
        for one in list(self.listeners[channel]):
            one.push(payload)


class Way(Protocol):
    """How a process reaches the database."""

    async def travel(self) -> None:
        """One way. Raises StoreUnavailable."""

    def loses(self) -> bool:
        """Whether a connection is lost now."""


@dataclass(eq=False)
class Subscription:
    """A connection that listens; it comes back by itself."""

    way: Way
    listeners: list[Subscription]  # of the channel
    on_payload: Callable[[str], None]
    on_gap: Callable[[], None]
    _pushes: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)  # None: it is lost
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen from now on. Raises StoreUnavailable."""
        await self._listen()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Hear no more."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if self in self.listeners:
            self.listeners.remove(self)

    def push(self, payload: str) -> None:
        """The server sends something."""
        if self.way.loses():
            self.lose()
        else:
            self._pushes.put_nowait(payload)

    def lose(self) -> None:
        """The connection is gone, and what was on its way."""
        if self in self.listeners:
            self.listeners.remove(self)
        while not self._pushes.empty():
            self._pushes.get_nowait()
        self._pushes.put_nowait(None)

    async def _listen(self) -> None:
        await self.way.travel()
        self.listeners.append(self)
        try:
            await self.way.travel()
        except BaseException:
            self.lose()
            raise

    async def _run(self) -> None:
        while True:
            payload = await self._pushes.get()
            if payload is None:
                await self._listen_again()
                self.on_gap()
                continue
            try:
                await self.way.travel()
            except StoreUnavailable:
                self.lose()
                continue
            if self in self.listeners:  # nothing that was on its way is heard after a loss
                self.on_payload(payload)

    async def _listen_again(self) -> None:
        backoff, longest = BACKOFF_SECONDS
        while True:
            while not self._pushes.empty():
                self._pushes.get_nowait()
            with suppress(StoreUnavailable):
                return await self._listen()
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, longest)
