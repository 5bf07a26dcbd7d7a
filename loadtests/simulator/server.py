"""The simulator as one object: listening sockets, and its own endpoints under `/_sim`.

async with Simulator(seed=7) as simulator:
    simulator.put_faults({"status": 503}, api_key="upstream-a")
    ...  # point a channel at simulator.base_url
    await simulator.wait(requests=1)

Requests to `/_sim` are never counted. In-process tests use the same through `Simulator`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

from loadtests.simulator.dialects.base import encode
from loadtests.simulator.directives import DirectiveError, parse, port_channel
from loadtests.simulator.engine import MODELS, TASK_SECONDS, Engine
from loadtests.simulator.exchange import GAUGES, RING_REQUESTS, Exchange, Stats
from loadtests.simulator.http import Connection
from loadtests.simulator.providers.table import PROVIDERS
from loadtests.simulator.script import phrase

MAX_WAIT_SECONDS: Final = 60.0
DEFAULT_WAIT_SECONDS: Final = 5.0
SHORT_NAMES: Final = {"cancelled": "cancelled_by_client", "events": "events_sent"}
COUNTERS: Final = frozenset(
    {
        "active",
        "bytes_sent",
        "cancelled_by_client",
        "completed",
        "connections",
        "connections_open",
        "cut",
        "events_sent",
        "held_back",
        "paused",
        "polls",
        "requests",
        "tasks",
    }
)
KEY_COUNTERS: Final = frozenset({"active", "cancelled_by_client", "completed", "cut", "requests"})


class Unmet(Exception):
    """The time-out passed before the counters were where they should be."""


class BadQuestion(Exception):
    """The introspection request cannot be answered: status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


async def wait_for(
    stats: Stats, wanted: Mapping[str, int], *, key: str | None, timeout_seconds: float
) -> None:
    """Wait until counters reach (gauges equal) the wanted figures; raises Unmet, BadQuestion."""
    allowed = COUNTERS if key is None else KEY_COUNTERS
    figures = {SHORT_NAMES.get(name, name): figure for name, figure in wanted.items()}
    unknown = sorted(figures.keys() - allowed)
    if unknown or not figures:
        raise BadQuestion(400, f"wait for some of {', '.join(sorted(allowed))}, not {unknown}")

    def is_met() -> bool:
        counted = stats if key is None else stats.tally(key)
        return all(
            getattr(counted, name) == figure if name in GAUGES else getattr(counted, name) >= figure
            for name, figure in figures.items()
        )

    try:
        async with asyncio.timeout(timeout_seconds):
            await stats.until(is_met)
    except TimeoutError:
        raise Unmet(f"{dict(wanted)} not seen in {timeout_seconds} s: {stats!r}") from None


async def respond(
    engine: Engine, exchange: Exchange, open_provider: Callable[[str], Awaitable[str]]
) -> bytes:
    """The whole HTTP answer to one introspection request."""
    try:
        status, value = await _answer(engine, exchange, open_provider)
    except BadQuestion as question:
        status, value = question.status, {"error": str(question)}
    except DirectiveError as error:
        status, value = 400, {"error": str(error)}
    body = encode(value)
    return b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        phrase(status).encode(),
        len(body),
        body,
    )


async def _answer(
    engine: Engine, exchange: Exchange, open_provider: Callable[[str], Awaitable[str]]
) -> tuple[int, dict[str, Any]]:
    # Cut the raw path: a key may hold an encoded slash.
    noun, *rest = exchange.path.removeprefix("/_sim").removeprefix("/").split("/", 1)
    match exchange.method, noun:
        case "GET", "wait":
            return await _wait(engine, exchange.parameters())
        case "GET", _:
            return 200, _shown(engine, exchange, noun)
        case "POST", "withdraw":
            engine.cloud.issuer.withdraw()
            return 200, {}
        case "POST", "token-seconds":
            engine.cloud.issuer.seconds = _number("".join(rest))
            return 200, {}
        case "POST", "finish":
            if not engine.tasks.book.finish(engine.tasks.clock(), _channel_in(rest)):
                raise BadQuestion(404, f"no task {rest[0]}")
            return 200, engine.stats.describe()
        case "POST", "reset":
            engine.reset()
            return 200, engine.stats.describe()
        case "POST", "resume":
            engine.stats.resume()
            return 200, engine.stats.describe()
        case "PUT", "providers":
            name = "".join(rest)
            if name not in PROVIDERS:
                raise BadQuestion(404, f"no provider {name!r}, but {', '.join(PROVIDERS)}")
            return 200, {"base_url": await open_provider(name)}
        case "PUT", "faults":
            engine.faults.put(_channel_in(rest), parse(exchange.body))
            return 200, engine.faults.describe()
        case "DELETE", "faults":
            engine.faults.clear(_channel_in(rest))
            return 200, engine.faults.describe()
    raise BadQuestion(404, f"no {exchange.method} {exchange.path} here")


def _shown(engine: Engine, exchange: Exchange, noun: str) -> dict[str, Any]:
    """What a GET shows of the simulator's state."""
    match noun:
        case "stats":
            return engine.stats.describe()
        case "requests":
            recent = engine.ring.last(_number(exchange.parameters().get("last", "50")))
            return {"requests": [request.describe() for request in recent]}
        case "tasks":
            count = _number(exchange.parameters().get("last", "50"))
            return {"tasks": engine.tasks.book.describe(count, engine.tasks.clock())}
        case "google-key":
            base_url = f"http://{exchange.header(b'host').decode('latin-1')}"
            return dict(engine.cloud.issuer.google_key(base_url))
        case "faults":
            return engine.faults.describe()
    raise BadQuestion(404, f"no {exchange.method} {exchange.path} here")


async def _wait(engine: Engine, parameters: dict[str, str]) -> tuple[int, dict[str, Any]]:
    key = parameters.pop("key", None)
    try:
        timeout_seconds = float(parameters.pop("timeout", DEFAULT_WAIT_SECONDS))
    except ValueError:
        raise BadQuestion(400, "timeout is a number of seconds") from None
    if not 0 <= timeout_seconds <= MAX_WAIT_SECONDS:
        raise BadQuestion(400, f"timeout is 0 to {MAX_WAIT_SECONDS:g} seconds")
    wanted = {name: _number(text) for name, text in parameters.items()}
    try:
        await wait_for(engine.stats, wanted, key=key, timeout_seconds=timeout_seconds)
    except Unmet:
        return 408, {"is_met": False, **engine.stats.describe()}
    return 200, {"is_met": True, **engine.stats.describe()}


def _channel_in(rest: list[str]) -> str | None:
    """The channel a path names, None for everybody."""
    return unquote(rest[0]) if rest and rest[0] else None


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise BadQuestion(400, f"{text!r} is not a whole number")
    return int(text)


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
