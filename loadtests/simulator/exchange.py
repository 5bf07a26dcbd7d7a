"""One request as it came in and what became of it; the counters of all, and waiting for them.

The gauges survive a reset, since what they count is still there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

Outcome = Literal["active", "completed", "cut", "cancelled"]

# Enough for any single test; the byte bound keeps a load test with large images from growing.
RING_REQUESTS: Final = 1024
RING_BYTES: Final = 32 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its fate: `active`, then `completed`, `cut` by us or `cancelled` by them."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    port: int
    is_keep_alive: bool
    protocol: str = ""
    api_key: str = ""
    status: int = 0
    outcome: Outcome = "active"

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        return self.target.partition(b"?")[2].decode("latin-1")

    def parameters(self) -> dict[str, str]:
        """The query's names and values, the last of a name."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    def header(self, name: bytes) -> bytes:
        """The value of a header given in lower case; empty when absent."""
        for key, value in self.headers:
            if len(key) == len(name) and key.lower() == name:
                return value
        return b""

    @property
    def bearer(self) -> str:
        """The key or token of an `Authorization: Bearer` header; empty without one."""
        scheme, _, key = self.header(b"authorization").decode("latin-1").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""

    def describe(self) -> dict[str, Any]:
        """The request as JSON: headers joined by lower-case name, and raw in their order."""
        joined: dict[str, str] = {}
        raw: list[list[str]] = []
        for key, value in self.headers:
            name, text = key.decode("latin-1"), value.decode("latin-1")
            raw.append([name, text])
            lower = name.lower()
            joined[lower] = f"{joined[lower]}, {text}" if lower in joined else text
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": joined,
            "raw_headers": raw,
            "body": self.body.decode("utf-8", "replace"),
            "protocol": self.protocol,
            "api_key": self.api_key,
            "status": self.status,
            "outcome": self.outcome,
        }


class Ring:
    """The most recent exchanges, oldest first, bounded in number and in body bytes."""

    def __init__(self, *, requests: int = RING_REQUESTS, body_bytes: int = RING_BYTES) -> None:
        self._limit = requests
        self._byte_limit = body_bytes
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._exchanges)

    def add(self, exchange: Exchange) -> None:
        exchanges = self._exchanges
        exchanges.append(exchange)
        self._bytes += len(exchange.body)
        # the newest stays whatever its size, so that a test always finds what it just sent
        while len(exchanges) > self._limit or (
            self._bytes > self._byte_limit and len(exchanges) > 1
        ):
            self._bytes -= len(exchanges.popleft().body)

    def last(self, count: int) -> list[Exchange]:
        """At most `count` exchanges, oldest first."""
        return list(self._exchanges)[-count:] if count > 0 else []

    def clear(self) -> None:
        self._exchanges.clear()
        self._bytes = 0


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


@dataclass(eq=False)
class Stats:
    """What came in and what became of it, in the order in which it is shown."""

    connections: int = 0
    connections_open: int = 0
    requests: int = 0
    by_protocol: dict[str, int] = field(default_factory=dict)
    active: int = 0
    held_back: int = 0  # connections whose client reads too slowly
    paused: int = 0  # exchanges that wait for `resume`
    completed: int = 0
    cut: int = 0
    cancelled_by_client: int = 0
    events_sent: int = 0
    bytes_sent: int = 0
    tasks: int = 0  # begun
    polls: int = 0  # of tasks that were known
    by_key: dict[str, Tally] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self._resumptions = 0

    def tally(self, api_key: str) -> Tally:
        if api_key not in self.by_key and len(self.by_key) >= MAX_KEYS:
            api_key = OTHER_KEYS
        return self.by_key.setdefault(api_key, Tally())

    def count(self, **more: int) -> None:
        """Move counters by so much."""
        for name, by in more.items():
            setattr(self, name, getattr(self, name) + by)
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
        name = "cancelled_by_client" if outcome == "cancelled" else outcome
        for counted in (self, tally):
            setattr(counted, name, getattr(counted, name) + 1)
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
        self.count(paused=1)
        try:
            await self.until(lambda: self._resumptions > before)
        finally:
            self.count(paused=-1)

    def reset(self) -> None:
        """Back to zero, but for the gauges: what is active stays counted as active."""
        kept = {key: Tally(active=one.active) for key, one in self.by_key.items() if one.active}
        for one in fields(self):
            if one.type == "int" and one.name not in GAUGES:
                setattr(self, one.name, 0)
        self.by_protocol, self.by_key = {}, kept
        self._wake()

    def describe(self) -> dict[str, Any]:
        """All counters, ready to be written as JSON."""
        return asdict(self)

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
