"""The simulator as one object: listening sockets, and the in-process face of introspection.

async with Simulator(seed=7) as simulator:
    simulator.put_faults({"status": 503}, api_key="upstream-a")
    ...  # point a channel at simulator.base_url
    await simulator.wait(requests=1)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from loadtests.simulator.engine import MODELS, TASK_SECONDS, Engine
from loadtests.simulator.exchange import RING_REQUESTS, Exchange
from loadtests.simulator.faults import port_channel
from loadtests.simulator.http import Connection
from loadtests.simulator.introspection import MAX_WAIT_SECONDS, respond, wait_for
from loadtests.simulator.stats import Stats

BACKLOG = 4096


class Simulator:
    """Upstreams on one or more ports, with one memory of what they saw."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int = 7,
        clock: Callable[[], float] = time.time,
        task_seconds: float = TASK_SECONDS,
        requests_kept: int = RING_REQUESTS,
        models: Sequence[str] = MODELS,
    ) -> None:
        self.host = host
        self.port = port
        self.engine = Engine(
            seed,
            clock=clock,
            task_seconds=task_seconds,
            requests_kept=requests_kept,
            models=models,
        )
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: set[Connection] = set()

    def __repr__(self) -> str:
        return f"<Simulator ports {sorted(self._servers)} {self.engine.stats!r}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; `port` and `base_url` are known afterwards. Raises OSError when taken."""
        self.port = await self._listen(self.port)

    async def stop(self) -> None:
        """Close every port and drop every connection, whatever it was doing."""
        tasks = [self._close(port) for port in list(self._servers)]
        await asyncio.gather(*tasks)

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def open_port(self, *, provider: str | None = None) -> int:
        """Listen on one more port: another upstream, with faults of its own.

        With a `provider` it plays that one; raises KeyError for one that is not in the table.
        """
        port = await self._listen(0)
        if provider is not None:
            self.engine.play(port, provider)
        return port

    async def close_port(self, port: int) -> None:
        """Stop listening on a port and drop its connections: a machine that is down."""
        await self._close(port)

    @property
    def stats(self) -> Stats:
        return self.engine.stats

    def requests(self, last: int = 50) -> list[Exchange]:
        """The most recent requests, oldest first."""
        return self.engine.ring.last(last)

    def tasks(self, last: int = 50) -> list[dict[str, Any]]:
        """The most recent tasks, oldest first."""
        return self.engine.tasks.book.describe(last, self.engine.tasks.clock())

    def finish(self, task_id: str | None = None) -> bool:
        """Let one task, or all, end now as planned; False for an unknown one."""
        return self.engine.tasks.book.finish(self.engine.tasks.clock(), task_id)

    def put_faults(
        self,
        directive: Mapping[str, Any],
        *,
        api_key: str | None = None,
        port: int | None = None,
    ) -> None:
        """Set a standing directive of a key, of a port, or of everybody; raises DirectiveError."""
        self.engine.faults.put(_channel(api_key, port), directive)

    def clear_faults(self, *, api_key: str | None = None, port: int | None = None) -> None:
        """Take such a directive away."""
        self.engine.faults.clear(_channel(api_key, port))

    def reset(self) -> None:
        """Forget faults, requests and counters."""
        self.engine.reset()

    async def wait(
        self,
        *,
        key: str | None = None,
        timeout_seconds: float = MAX_WAIT_SECONDS,
        **wanted: int,
    ) -> None:
        """Wait until counters get there, e.g. `cancelled=1` or `active=0`; raises Unmet."""
        await wait_for(self.stats, wanted, key=key, timeout_seconds=timeout_seconds)

    async def _introspect(self, exchange: Exchange) -> bytes:
        return await respond(self.engine, exchange, self._open_provider)

    async def _open_provider(self, provider: str) -> str:
        """The address of one more port that plays a provider."""
        return f"http://{self.host}:{await self.open_port(provider=provider)}"

    async def _listen(self, port: int) -> int:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._accept, self.host, port, backlog=BACKLOG, start_serving=False
        )
        bound: int = server.sockets[0].getsockname()[1]
        self._servers[bound] = server
        await server.start_serving()
        return bound

    def _accept(self) -> Connection:
        return Connection(self.engine, self._introspect, self._connections, self._is_open)

    def _is_open(self, port: int) -> bool:
        return port in self._servers

    async def _close(self, port: int) -> None:
        self._servers.pop(port).close()
        mine = [connection for connection in self._connections if connection.port == port]
        tasks = [connection.task for connection in mine if connection.task is not None]
        for connection in mine:
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Not the server's own waiting: newer Pythons wait there for a connection that was just
        # being accepted. Such a one finds its port closed and gives up by itself.
        await self.stats.until(lambda: self._connections.isdisjoint(mine))


def _channel(api_key: str | None, port: int | None) -> str | None:
    assert api_key is None or port is None, "faults belong to a key or to a port, not to both"
    return api_key if port is None else port_channel(port)
