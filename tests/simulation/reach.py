"""A process's way to the database: statements are slow, are lost, arrive late, find it away.

Where a statement is lost nobody knows whether it took effect, before or after; it may also take
effect long after its asker has given up. Nothing is ever repeated here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from actors.media_store.task_scanner import SQL as SCANNER_SQL
from actors.store.errors import StoreUnavailable
from actors.wallet import ledger
from tests.simulation.keys import Subscription
from tests.simulation.loop import OWNER
from tests.simulation.store import SimulatedStore

T = TypeVar("T")

# What a statement takes there and back, in seconds, and how late one may be.
SLOW_SECONDS = 0.02
LATE_SECONDS = 4.0


@dataclass
class Network:
    """The database as everybody reaches it."""

    store: SimulatedStore
    chance: Random
    # Called after each statement that took effect.
    look: Callable[[str], None]
    lost: float  # this part of all statements, and of all replies; a third of it arrives late
    is_away: bool = False
    thawed: asyncio.Event = field(default_factory=asyncio.Event)

    def go_away(self) -> None:
        """Nothing reaches it, and nobody hears of it."""
        self.is_away = True
        self.store.keys.disconnect()

    def heal(self) -> None:
        """From now on every statement arrives and is answered."""
        self.lost, self.is_away = 0.0, False
        self.thawed.set()


@dataclass
class Link:
    """One session, or the pool of a process; what has ended runs nothing more."""

    network: Network
    process: Reach
    has_ended: bool = False

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        if sql == ledger.SQL["take_over"]:
            self.process.end_sessions_but(self)
        if sql == SCANNER_SQL["mine"]:
            return await self._run(sql, self._scanner)
        return await self._run(sql, lambda: self.network.store.fetch_all(sql, params))

    async def fetch_one(self, sql: str, params: Any = ()) -> tuple[Any, ...] | None:
        rows = await self.fetch_all(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Any = ()) -> int:
        return await self._run(sql, lambda: self.network.store.execute(sql, params))

    async def close(self) -> None:
        """The client has closed it; the server may not know."""

    async def _scanner(self) -> list[tuple[Any, ...]]:
        is_mine = self.network.store.copies.scanner.take(
            self, lambda: self.has_ended or self.process.is_cut
        )
        return [(0.0,)] if is_mine else []

    async def _run(self, sql: str, statement: Callable[[], Awaitable[T]]) -> T:
        network, chance = self.network, self.network.chance
        fate = chance.random()
        has_arrived = False
        try:
            await self.travel()
            if fate < network.lost:
                self._maybe_later(sql, statement, 1 / 3)
                raise StoreUnavailable("the connection was lost")
            if self.has_ended:
                raise StoreUnavailable("the session was ended")
            has_arrived = True
            result = await self._effect(sql, statement)
            await self.travel()
        except asyncio.CancelledError:
            if not has_arrived:
                self._maybe_later(sql, statement, 1 / 2)
            raise
        if fate > 1 - network.lost:
            raise StoreUnavailable("the reply was lost")
        return result

    async def travel(self) -> None:
        """One way. Raises StoreUnavailable."""
        self.process.check()
        await asyncio.sleep(self.network.chance.expovariate(2 / SLOW_SECONDS))
        await self.process.connected.wait()
        await self.network.thawed.wait()
        self.process.check()
        if self.network.is_away:
            raise StoreUnavailable("the database is away")

    async def _effect(self, sql: str, statement: Callable[[], Awaitable[T]]) -> T:
        result = await statement()
        self.network.look(sql)
        return result

    def _maybe_later(self, sql: str, statement: Callable[[], Awaitable[Any]], odds: float) -> None:
        """The server has got it after all, and runs it when it comes to it."""
        if self.network.chance.random() >= odds:
            return
        pause = self.network.chance.uniform(0, LATE_SECONDS)

        async def later() -> None:
            OWNER.set(None)
            await asyncio.sleep(pause)
            await self.network.thawed.wait()
            if not self.has_ended and not self.network.is_away:
                await self._effect(sql, statement)

        token = OWNER.set(None)  # it is the server's, whatever becomes of the process
        try:
            self.process.servers.add(asyncio.ensure_future(later()))
        finally:
            OWNER.reset(token)


class Reach(Link):
    """The pool of a process, and its sessions."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, self)
        self.connected = asyncio.Event()
        self.connected.set()
        self.is_cut = False
        self.servers: set[asyncio.Future[None]] = set()
        self._sessions: list[Link] = []

    async def session(self) -> Link:
        """A session of its own."""
        await self.travel()
        made = Link(self.network, self)
        self._sessions.append(made)
        return made

    async def listen(
        self, channel: str, on_payload: Callable[[str], None], on_gap: Callable[[], None]
    ) -> Subscription:
        """Hear what is pushed, from now on. Raises StoreUnavailable."""
        listeners = self.network.store.keys.listeners[channel]
        made = Subscription(self, listeners, on_payload, on_gap)
        await made.start()
        return made

    def loses(self) -> bool:
        """Whether a connection that listens is lost now."""
        return self.is_cut or self.network.chance.random() < self.network.lost / 10

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Link]:
        """A session of which the end releases the one lock there is; it writes nothing else."""
        session = Link(self.network, self)
        try:
            yield session
        finally:
            session.has_ended = True
            self.network.store.copies.scanner.release(session)

    def end_sessions_but(self, one: Link) -> None:
        """The server ends what the process has left open."""
        for session in self._sessions:
            session.has_ended = session is not one
        self._sessions = [one]

    def cut(self) -> None:
        """The process is dead."""
        self.is_cut = True
        self.connected.set()

    def check(self) -> None:
        if self.is_cut:
            raise StoreUnavailable("the process is dead")
