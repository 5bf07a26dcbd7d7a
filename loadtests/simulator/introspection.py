"""The simulator's own endpoints, under `/_sim`: counters, recent requests, faults, waiting.

They are never counted among the requests. In-process tests use the same through `Simulator`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from loadtests.simulator.dialects.base import encode
from loadtests.simulator.directives import DirectiveError, parse
from loadtests.simulator.engine import Engine
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.framing import phrase
from loadtests.simulator.providers.table import PROVIDERS
from loadtests.simulator.stats import GAUGES, Stats

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
            if not engine.tasks.book.finish(engine.tasks.clock(), _channel(rest)):
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
            engine.faults.put(_channel(rest), parse(exchange.body))
            return 200, engine.faults.describe()
        case "DELETE", "faults":
            engine.faults.clear(_channel(rest))
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


def _channel(rest: list[str]) -> str | None:
    """The channel a path names, None for everybody."""
    return unquote(rest[0]) if rest and rest[0] else None


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise BadQuestion(400, f"{text!r} is not a whole number")
    return int(text)
