"""Counters of what the upstream saw, and waiting for them to move.

The gauges survive a reset, since what they count is still there.
The HTTP face of this is `introspection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from loadtests.simulator.exchange import Exchange, Outcome

MAX_KEYS: Final = 1_000  # keys counted apart; the rest share one line
OTHER_KEYS: Final = "(other)"
GAUGES: Final = frozenset({"active", "connections_open", "held_back", "paused"})


@dataclass(slots=True)
class Tally:
    """Requests of one upstream key."""

    requests: int = 0
    active: int = 0
    completed: int = 0
    cut: int = 0
    cancelled_by_client: int = 0


class Stats:
    """What came in and what became of it."""

    def __init__(self) -> None:
        self.connections = 0
        self.connections_open = 0
        self.requests = 0
        self.active = 0
        self.held_back = 0  # connections whose client reads too slowly
        self.paused = 0  # exchanges that wait for `resume`
        self.completed = 0
        self.cut = 0
        self.cancelled_by_client = 0
        self.events_sent = 0
        self.bytes_sent = 0
        self.tasks = 0  # begun
        self.polls = 0  # of tasks that were known
        self.by_protocol: dict[str, int] = {}
        self.by_key: dict[str, Tally] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._resumptions = 0

    def __repr__(self) -> str:
        return (
            f"<Stats {self.requests} requests: {self.active} active, {self.completed} completed, "
            f"{self.cut} cut, {self.cancelled_by_client} cancelled | "
            f"{self.connections_open}/{self.connections} connections>"
        )

    def tally(self, api_key: str) -> Tally:
        tally = self.by_key.get(api_key)
        if tally is None:
            if len(self.by_key) >= MAX_KEYS:
                api_key = OTHER_KEYS
            tally = self.by_key.setdefault(api_key, Tally())
        return tally

    def connected(self) -> None:
        self.connections += 1
        self.connections_open += 1
        self._wake()

    def disconnected(self) -> None:
        self.connections_open -= 1
        self._wake()

    def held(self) -> None:
        self.held_back += 1
        self._wake()

    def let_go(self) -> None:
        self.held_back -= 1
        self._wake()

    def began(self, exchange: Exchange) -> None:
        self.requests += 1
        self.active += 1
        protocol = exchange.protocol
        self.by_protocol[protocol] = self.by_protocol.get(protocol, 0) + 1
        tally = self.tally(exchange.api_key)
        tally.requests += 1
        tally.active += 1
        self._wake()

    def ended(self, exchange: Exchange, outcome: Outcome) -> None:
        """Record how an exchange ended; `active` is not an end."""
        assert exchange.outcome == "active", exchange
        exchange.outcome = outcome
        self.active -= 1
        tally = self.tally(exchange.api_key)
        tally.active -= 1
        if outcome == "completed":
            self.completed += 1
            tally.completed += 1
        elif outcome == "cut":
            self.cut += 1
            tally.cut += 1
        else:
            self.cancelled_by_client += 1
            tally.cancelled_by_client += 1
        self._wake()

    def submitted(self) -> None:
        self.tasks += 1
        self._wake()

    def polled(self) -> None:
        self.polls += 1
        self._wake()

    def sent(self, *, events: int, count_bytes: int) -> None:
        self.events_sent += events
        self.bytes_sent += count_bytes
        self._wake()

    def resume(self) -> None:
        """Let every exchange that is paused at this moment go on."""
        self._resumptions += 1
        self._wake()

    async def resumption(self) -> None:
        """Wait for the next `resume`, and count as paused until then."""
        before = self._resumptions
        self.paused += 1
        self._wake()
        try:
            await self.until(lambda: self._resumptions > before)
        finally:
            self.paused -= 1
            self._wake()

    def reset(self) -> None:
        """Back to zero, but for the gauges: what is active stays counted as active."""
        self.connections = self.requests = self.completed = self.cut = 0
        self.cancelled_by_client = self.events_sent = self.bytes_sent = 0
        self.tasks = self.polls = 0
        self.by_protocol.clear()
        self.by_key = {
            key: Tally(active=tally.active) for key, tally in self.by_key.items() if tally.active
        }
        self._wake()

    def describe(self) -> dict[str, Any]:
        """All counters, ready to be written as JSON."""
        return {
            "connections": self.connections,
            "connections_open": self.connections_open,
            "requests": self.requests,
            "by_protocol": dict(self.by_protocol),
            "active": self.active,
            "held_back": self.held_back,
            "paused": self.paused,
            "completed": self.completed,
            "cut": self.cut,
            "cancelled_by_client": self.cancelled_by_client,
            "events_sent": self.events_sent,
            "bytes_sent": self.bytes_sent,
            "tasks": self.tasks,
            "polls": self.polls,
            "by_key": {
                key: {name: getattr(tally, name) for name in Tally.__slots__}
                for key, tally in self.by_key.items()
            },
        }

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition` holds; it is looked at after every movement of a counter."""
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _wake(self) -> None:
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
