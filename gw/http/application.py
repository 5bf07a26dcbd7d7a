"""The application of a server: routes, the bytes of responses, requests in flight, overload."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import inf
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.routing import Rule
from tornado.web import Application

from actors.clock import Clock
from channels.answers import AnswerBudget
from channels.resources import BodyBudget
from gw.http.tornado_adapter import (
    RequestHeaders,
    TornadoRequest,
    matches,
    only_path,
    path_args_of,
    rules_of,
)
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Routing by Tornado's rules in their order. Rules of one exact path are looked up in a dictionary,
# because each rule tried costs a regular expression.


class Target(NamedTuple):
    """A handler's class, its options, and the parts of the path that it is called with."""

    handler: Any  # a subclass of `TornadoHandler`
    options: dict[str, Any]
    path_args: Sequence[bytes] = ()


class Routes:
    """The rules of an application."""

    def __init__(self, rules: Sequence[Rule], otherwise: Target) -> None:
        self._rules = rules
        self._otherwise = otherwise
        self._exact: dict[str, Target] = {}
        for rule in rules:
            path = only_path(rule)
            # An earlier rule that matches the same path has precedence.
            if path is not None and self._first(path) is rule:
                self._exact[path] = Target(rule.target, rule.target_kwargs)

    def __repr__(self) -> str:
        return f"<Routes {len(self._rules)} rules {len(self._exact)} exact>"

    def find(self, request: HTTPServerRequest) -> Target:
        """Return the target of a request."""
        target = self._exact.get(request.path)
        if target is not None:
            return target
        for rule in self._rules:
            path_args = path_args_of(rule, request)
            if path_args is not None:
                return Target(rule.target, rule.target_kwargs, path_args)
        return self._otherwise

    def handler_at(self, target: str) -> Any:
        """Return the handler's class of a request's target, as far as it can be determined."""
        rule = self._first(target.partition("?")[0])
        return self._otherwise.handler if rule is None else rule.target

    def _first(self, path: str) -> Rule | None:
        return next((rule for rule in self._rules if matches(rule, path)), None)


# The bytes of a response: its head, and the framing of its body. Pure.

LAST_CHUNK = b"0\r\n\r\n"


class WholeResponse(NamedTuple):
    """A response that needs no handler."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def response_head(status: int, reason: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a response. Raises ValueError for a value that has a line break."""
    lines = [f"HTTP/1.1 {status} {reason}", *map(": ".join, headers.items())]
    text, breaks = "\r\n".join(lines), len(lines) - 1
    if text.count("\n") != breaks or text.count("\r") != breaks:
        raise ValueError("a header's value has a line break")
    return text.encode("latin-1") + b"\r\n\r\n"


def chunk_of(data: bytes) -> bytes:
    """Frame a piece, which must not be empty, of a body that is sent in chunks."""
    return b"%x\r\n%b\r\n" % (len(data), data)


# A larger response is written at once.
JOINED_BYTES_MAX = 16 * 1024


class Outbound:
    """The sending side of one connection, with its flow control."""

    __slots__ = (
        "_drained",
        "_joined",
        "_ready",
        "is_closed",
        "is_paused",
        "loop",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, ready: Future[None]) -> None:
        """`ready` is a done future, returned by writes that need not wait."""
        self.is_closed = False
        self.is_paused = False  # the transport's write buffer is full
        self.loop = loop
        self._ready = ready
        self._drained: Future[None] | None = None
        # A response that is written in the next turn, and what is called before.
        self._joined: tuple[bytes, Callable[[], None]] | None = None

    @property
    def unsent_bytes(self) -> int:
        """Written bytes that the system has not accepted yet."""
        return self.transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Write, unless the connection is closed."""
        if not self.is_closed:
            self.transport.write(data)

    def write(self, data: bytes) -> Future[None]:
        """Write; the future is done when more may be written, and fails if the client has left."""
        if self.is_closed:
            failed: Future[None] = self.loop.create_future()
            failed.set_exception(StreamClosedError())
            failed.exception()  # marks it as retrieved: awaiting it is optional
            return failed
        if data:
            self.transport.write(data)
        if not self.is_paused:
            return self._ready
        # One task waits at a time; a cancelled one has cancelled its future too.
        if self._drained is None or self._drained.done():
            self._drained = self.loop.create_future()
        return self._drained

    def join(self, data: bytes, before_write: Callable[[], None]) -> Future[None]:
        """Let `write_joined` write the whole of a small response, in the loop's next turn.

        A write wakes up a waiting peer of the same host, which costs as much again; the next ones,
        right after it, find it awake. `before_write` is called right before it, also if the client
        has left by then.
        """
        if self.is_closed or self.is_paused or len(data) > JOINED_BYTES_MAX:
            before_write()
            return self.write(data)
        self._joined = data, before_write
        return self._ready

    def write_joined(self) -> None:
        """Write the response that `join` has left, if there is one."""
        joined, self._joined = self._joined, None
        if joined is not None:
            data, before_write = joined
            before_write()
            if not self.is_closed:
                self.transport.write(data)

    def resume(self) -> None:
        """The write buffer has room again."""
        self.is_paused = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def close(self, error: Exception | None) -> None:
        """The client has left."""
        self.is_closed = True
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_exception(StreamClosedError(error))
            drained.exception()  # marks it as retrieved: awaiting it is optional


# A client that reads less of a full write buffer within this time is disconnected; 4 KB a second,
# at which a film of an hour takes a day, is a tenth of a slow mobile connection.
UNREAD_SECONDS = 60.0
UNREAD_BYTES_MIN = 240 * 1024
FOREVER = float("inf")


class Deadlines:
    """The two deadlines of a connection, on one timer.

    The timer is not one of `channels/resources.py`, because its deadline changes in kind and length
    several times a request, which takes two assignments here.
    """

    __slots__ = (
        "_expired",
        "_loop",
        "_timer",
        "head_until",
        "reader_until",
        "unsent_bytes",
        "until",
        "waits_in",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[], None]
    ) -> None:
        self.until = loop.time() + seconds
        self.waits_in: Enum | None = None  # the state whose deadline `until` is
        self.head_until = FOREVER  # last moment of a head that is received during a drain
        self.reader_until = FOREVER  # last moment for the client to read something
        self.unsent_bytes = 0  # at the last check of the reader
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, until: float, waits_in: Enum) -> None:
        """Set the deadline; the timer is replaced only if it would fire too late."""
        self.until = until
        self.waits_in = waits_in
        if self._timer is None or self._timer.when() > until:
            self.wake_at(until)

    def disarm(self, waits_in: Enum) -> None:
        """Remove the deadline."""
        self.until = FOREVER
        self.waits_in = waits_in

    def watch_reader(self, unsent_bytes: int) -> None:
        """Set the deadline by which the client must read something."""
        self.unsent_bytes = unsent_bytes
        self.reader_until = self._loop.time() + UNREAD_SECONDS
        self.wake_at(self.reader_until)

    def wake_at(self, until: float) -> None:
        """Call `expired` at this time or earlier."""
        timer = self._timer
        if timer is None or timer.when() > until:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(until, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._expired()

    def cancel(self) -> None:
        """Remove the deadlines for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._expired  # it refers back to the connection


# The requests in flight in this process, and the drain on SIGTERM, run by `gw/serve.py`:
#
# 1. every response closes its connection;
# 2. the listener closes, and serves clients once more that could not know of the drain;
# 3. new requests are refused, so that the number in flight can only fall;
# 4. requests in flight may finish for `drain_seconds`; then the rest is cut and settles.
#
# A request enters and leaves by itself (`request.py`).

# Time for calls that were cut to send their settlements, which takes no I/O of their own.
CUT_SECONDS = 5.0


class Cuttable(Protocol):
    """A request that can be ended now."""

    def cut(self) -> None:
        """End at once; delivered content is settled, and the client sees its response end."""


class RequestsInFlight:
    """Every request between its headers and the end of its response."""

    def __init__(self) -> None:
        self._requests: dict[Cuttable, None] = {}  # oldest first
        self.entered = 0  # total
        self.closers: set[Callable[[], None]] = set()  # of open connections that are not in flight
        self.is_draining = False  # responses close their connections, `/readyz` answers 503
        self.is_refusing = False  # new requests are answered with 503
        self._idle: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "refusing" if self.is_refusing else "draining" if self.is_draining else "open"
        return f"<RequestsInFlight {len(self._requests)} requests {state}>"

    def __len__(self) -> int:
        return len(self._requests)

    def enter(self, request: Cuttable) -> None:
        """A request begins."""
        self.entered += 1
        self._requests[request] = None

    def leave(self, request: Cuttable) -> None:
        """A request has ended. Leaving twice is harmless."""
        self._requests.pop(request, None)
        if self._idle is not None and not self._requests and not self._idle.done():
            self._idle.set_result(None)

    def begin_drain(self) -> None:
        """Begin the drain: from now on responses close their connections."""
        self.is_draining = True
        for close in list(self.closers):
            close()

    def refuse_new(self) -> None:
        """Refuse new requests from now on."""
        self.begin_drain()
        self.is_refusing = True

    async def drain(self, *, seconds: float, clock: Clock) -> int:
        """Wait until nothing is in flight, at most `seconds`; cut the rest and return how many."""
        self.begin_drain()
        if await self._emptied(seconds, clock):
            return 0
        late = list(self._requests)
        for request in late:
            request.cut()
        await self._emptied(CUT_SECONDS, clock)
        return len(late)

    async def _emptied(self, seconds: float, clock: Clock) -> bool:
        """Wait until no request is in flight; False after `seconds`."""
        loop = asyncio.get_running_loop()
        late = asyncio.ensure_future(clock.sleep(seconds))
        try:
            while self._requests and not late.done():
                self._idle = loop.create_future()
                await asyncio.wait((self._idle, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
            self._idle = None
        return not self._requests


class ServerConfig(Protocol):
    """The part of the configuration that the server reads."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body that is accepted."""


class ResponseMetrics(Protocol):
    """The metrics that the server writes."""

    def http_response(self, *, route: str, status: int) -> None: ...


class CrossOrigin(Protocol):
    """Adds the headers of CORS to responses (`cors.py`)."""

    def headers(self, received: RequestHeaders, headers: Mapping[str, str]) -> dict[str, str]: ...


class ServerServices(Protocol):
    """The services that the server uses."""

    @property
    def clock(self) -> Clock: ...

    @property
    def new_id(self) -> Callable[[], UUID]: ...

    @property
    def config(self) -> ServerConfig: ...

    @property
    def metrics(self) -> ResponseMetrics: ...

    @property
    def in_flight(self) -> RequestsInFlight: ...

    @property
    def bodies(self) -> BodyBudget: ...

    @property
    def answers(self) -> AnswerBudget: ...


class HttpApplication(Application):
    """The routes and the services of the server; every handler is a `TornadoHandler`.

    `otherwise` handles unknown paths; `cors` is None where no other origin is allowed; `settings`
    are Tornado's.
    """

    def __init__(
        self,
        handlers: list[Any],
        *,
        services: ServerServices,
        otherwise: type[Any],
        **settings: Any,
    ) -> None:
        super().__init__(handlers, **settings)
        self.cors: CrossOrigin | None = None
        self.services = services
        self.routes = Routes(rules_of(self), Target(otherwise, {}))

    def early_response(self, request: TornadoRequest, handler: type[Any]) -> WholeResponse | None:
        """Return the response of a request that is refused without a handler, else None."""
        return None


# Overload: admission control by queue delay.
#
# Overload is detected as CoDel detects a standing queue (RFC 8289): the delay stays above a target
# for a whole interval, so a shorter burst is no overload. Then the number of calls that wait for
# their hold is limited, and the limit follows the delay by additive increase and multiplicative
# decrease (AIMD; Chiu and Jain, 1989), once an interval:
#
#     state     in an interval                                   then
#     free      every delay was above the target                 limited to LIMIT_FIRST
#     limited   the mean delay was above a quarter of the target the limit falls to DECREASE of it
#     limited   it was not, and calls were refused               the limit rises by LIMIT_FIRST / 4
#     limited   no refusal, in CALM_INTERVALS on end            free
#
# A call above the limit is refused after its head, before its key is looked up and its body read.
# The delay is that of the loop and of the ledger's queue, measured by `DelayWatch` below; the
# response is in `gw/api/base.py`. Pure: time is an argument (monotonic seconds).

INTERVAL_SECONDS = 0.25
# This many calls keep the loop busy while their holds are made. A smaller limit makes ledger
# batches smaller, which cost more per call; a quarter of it is the minimum.
LIMIT_FIRST = 64
DECREASE = 2 / 3
CALM_INTERVALS = 4


class Overload:
    """Decides whether a call may wait for its hold. One per process."""

    __slots__ = (
        "_calm",
        "_count",
        "_interval_at",
        "_refused",
        "_sum_seconds",
        "_target_seconds",
        "limit",
        "waiting",
    )

    def __init__(self, target_seconds: float | None) -> None:
        """Without a target no call is refused."""
        self.waiting = 0  # calls whose body is complete and whose hold is not granted
        self.limit: float = inf
        self._target_seconds = inf if target_seconds is None else target_seconds
        self._calm = 0  # intervals in a row without a refusal
        # In this interval:
        self._interval_at = 0.0
        self._count = 0
        self._sum_seconds = 0.0
        self._refused = 0

    def __repr__(self) -> str:
        return f"<Overload {self.waiting} waiting, limit {self.limit:g}>"

    @property
    def is_limited(self) -> bool:
        """Whether calls may be refused."""
        return self.limit != inf

    @property
    def is_full(self) -> bool:
        """Whether the next call has to be refused."""
        return self.waiting >= self.limit

    def refused(self) -> None:
        """A call was refused."""
        self._refused += 1

    def measured(self, delay_seconds: float, now: float) -> None:
        """Add a delay measured at `now`; change the limit at the end of an interval."""
        if not self.is_limited and delay_seconds <= self._target_seconds:
            self._begin_interval()
            return
        if not self._count:  # a pause of the process is one delay, however long it was
            self._interval_at = now
        self._count += 1
        self._sum_seconds += delay_seconds
        if now - self._interval_at < INTERVAL_SECONDS:
            return
        if self.is_limited:
            self._adjust()
        else:
            self.limit, self._calm = LIMIT_FIRST, 0
        self._begin_interval()

    def _adjust(self) -> None:
        step = LIMIT_FIRST // 4
        self._calm = 0 if self._refused else self._calm + 1
        if self._calm >= CALM_INTERVALS:
            self.limit = inf
        elif self.waiting > self.limit:
            return  # calls that waited when the limit was set still wait
        elif self._sum_seconds / self._count > self._target_seconds / 4:
            self.limit = max(step, int(self.limit * DECREASE))
        elif self._refused:
            self.limit += step

    def _begin_interval(self) -> None:
        self._count, self._sum_seconds, self._refused = 0, 0.0, 0


# Measures how long work waits in this process, and reports it to `Overload`.
#
# The delay of the loop is how late a timer fires. Holds that did not fit into the last batch wait
# for the ledger even while the loop is idle. A busy process is measured more often.

BUSY_SECONDS = 0.01
REST_SECONDS = 0.05


class DelayWatch:
    """Measures the delay until cancelled."""

    def __init__(
        self,
        overload: Overload,
        *,
        ledger_seconds: Callable[[], float],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._overload = overload
        self._ledger_seconds = ledger_seconds
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("gw.web.overload")

    def __repr__(self) -> str:
        return f"<DelayWatch {self._overload!r}>"

    async def run(self) -> None:
        """Measure until cancelled."""
        overload, clock = self._overload, self._clock
        while True:
            is_busy = overload.waiting or overload.is_limited
            seconds = BUSY_SECONDS if is_busy else REST_SECONDS
            due = clock.monotonic() + seconds
            await clock.sleep(seconds)
            now = clock.monotonic()
            self._measured(max(now - due, self._ledger_seconds()), now)

    def _measured(self, delay_seconds: float, now: float) -> None:
        overload = self._overload
        was_limited = overload.is_limited
        overload.measured(delay_seconds, now)
        self._metrics.queue_delay(delay_seconds)
        if overload.is_limited != was_limited:
            self._metrics.overloaded(overload.is_limited)
            if overload.is_limited:
                self._log.warning("overload_began", waiting=overload.waiting)
            else:
                self._log.warning("overload_ended")
