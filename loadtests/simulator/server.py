"""The simulator as one object: listening sockets, and its own endpoints under `/_sim`.

async with Simulator(seed=7) as simulator:
    simulator.put_faults({"status": 503}, api_key="upstream-a")
    ...  # point a channel at simulator.base_url
    await simulator.wait(requests=1)

Requests to `/_sim` are never counted. In-process tests use the same through `Simulator`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

from loadtests.simulator import script
from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, encode
from loadtests.simulator.directives import ORDINARY
from loadtests.simulator.engine import Engine
from loadtests.simulator.exchange import GAUGES, Exchange, Stats, Tally
from loadtests.simulator.http import Connection
from loadtests.simulator.providers.table import PROVIDERS
from loadtests.simulator.tasks.task import Task

MAX_WAIT_SECONDS: Final = 60.0
SHORT_NAMES: Final = {"cancelled": "cancelled_by_client", "events": "events_sent"}
COUNTERS: Final = frozenset(one.name for one in fields(Stats)) - {"by_key", "by_protocol"}
KEY_COUNTERS: Final = frozenset(one.name for one in fields(Tally))
BACKLOG: Final = 4096


class Simulator:
    """Upstreams on one or more ports, with one memory of what they saw.

    `how` is as `Engine` has it.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, seed: int = 7, **how: Any
    ) -> None:
        self.host = host
        self.port = port
        self.engine = Engine(seed, **how)
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: set[Connection] = set()

    async def __aenter__(self) -> Self:
        """Listen; `port` and `base_url` are known afterwards. Raises OSError when taken."""
        self.port = await self._listen(self.port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every port and drop every connection, whatever it was doing."""
        while self._servers:
            self._servers.popitem()[1].close()
        open_still = list(self._connections)
        tasks = [one.task for one in open_still if one.task is not None]
        for connection in open_still:
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Not the servers' own waiting: newer Pythons wait there for a connection that was just
        # being accepted. Such a one finds its port closed and gives up by itself.
        await self.stats.until(lambda: self._connections.isdisjoint(open_still))

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def open_port(self, *, provider: str) -> int:
        """Listen on one more port, which plays this provider; KeyError for an unknown one."""
        port = await self._listen(0)
        self.engine.play(port, provider)
        return port

    @property
    def stats(self) -> Stats:
        return self.engine.stats

    def requests(self, last: int = 50) -> list[Exchange]:
        """The most recent requests, oldest first."""
        return self.engine.ring.last(last)

    def tasks(self) -> list[Task]:
        """All tasks, oldest first."""
        return [*self.engine.tasks.book.tasks.values()]

    def finish(self) -> None:
        """Let every task end now as planned."""
        for task in self.tasks():
            task.finish(self.engine.tasks.clock())

    def put_faults(self, directive: Mapping[str, Any], *, api_key: str | None = None) -> None:
        """Set a standing directive of a key, or of everybody; raises DirectiveError."""
        self.engine.faults.put(api_key, directive)

    def clear_faults(self, *, api_key: str | None = None) -> None:
        """Take such a directive away."""
        self.engine.faults.clear(api_key)

    def reset(self) -> None:
        """Forget faults, requests and counters."""
        self.engine.reset()

    async def wait(
        self, *, key: str | None = None, timeout_seconds: float = MAX_WAIT_SECONDS, **wanted: int
    ) -> None:
        """Wait until counters reach (gauges equal) these; raises TimeoutError, Refusal.

        For example `cancelled=1` or `active=0`.
        """
        allowed = COUNTERS if key is None else KEY_COUNTERS
        figures = {SHORT_NAMES.get(name, name): figure for name, figure in wanted.items()}
        if not figures or figures.keys() - allowed:
            raise Refusal(400, f"wait for some of {', '.join(sorted(allowed))}, not {[*figures]}")

        def is_met() -> bool:
            counted = self.stats if key is None else self.stats.tally(key)
            found = ((name, getattr(counted, name), figure) for name, figure in figures.items())
            return all(
                is_now == figure if name in GAUGES else is_now >= figure
                for name, is_now, figure in found
            )

        try:
            async with asyncio.timeout(timeout_seconds):
                await self.stats.until(is_met)
        except TimeoutError:
            result = f"{wanted} not seen in {timeout_seconds} s: {self.stats!r}"
            raise TimeoutError(result) from None

    async def _introspect(self, exchange: Exchange) -> bytes:
        """The whole HTTP answer to a request under `/_sim`."""
        try:
            status, value = await self._respond(exchange)
        except Refusal as refusal:
            status, value = refusal.status, {"error": refusal.message}
        return script.body_script(status, ORDINARY, encode(value), JSON).bytes

    async def _respond(self, exchange: Exchange) -> tuple[int, object]:
        engine, parameters = self.engine, exchange.parameters()
        # Cut the raw path: a key may hold an encoded slash.
        noun, _, name = exchange.path.removeprefix("/_sim/").partition("/")
        match exchange.method, noun:
            case "GET", "wait":
                return await self._wait(parameters)
            case "GET", "stats":
                return 200, self.stats.describe()
            case "GET", "requests":
                recent = self.requests(_number(parameters.get("last", "50")))
                return 200, {"requests": [request.describe() for request in recent]}
            case "GET", "google-key":
                base_url = f"http://{exchange.header(b'host').decode('latin-1')}"
                return 200, engine.cloud.issuer.google_key(base_url)
            case "POST", "token-seconds":
                engine.cloud.issuer.seconds = _number(name)
                return 200, {}
            case "POST", "finish" | "reset" | "resume":
                {"finish": self.finish, "reset": self.reset, "resume": self.stats.resume}[noun]()
                return 200, self.stats.describe()
            case "PUT", "providers" if name in PROVIDERS:
                port = await self.open_port(provider=name)
                return 200, {"base_url": f"http://{self.host}:{port}"}
            case "PUT", "faults":
                engine.faults.put(unquote(name) or None, exchange.body)
                return 200, {}
            case "DELETE", "faults":
                engine.faults.clear(unquote(name) or None)
                return 200, {}
        raise Refusal(404, f"no {exchange.method} {exchange.path} here")

    async def _wait(self, parameters: dict[str, str]) -> tuple[int, object]:
        key, seconds = parameters.pop("key", None), parameters.pop("timeout", "5")
        try:
            timeout = min(float(seconds), MAX_WAIT_SECONDS)
        except ValueError:
            raise Refusal(400, "timeout is a number of seconds") from None
        wanted = {name: _number(text) for name, text in parameters.items()}
        try:
            await self.wait(key=key, timeout_seconds=timeout, **wanted)
        except TimeoutError:
            return 408, {"is_met": False, **self.stats.describe()}
        return 200, {"is_met": True, **self.stats.describe()}

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


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise Refusal(400, f"{text!r} is not a whole number")
    return int(text)
