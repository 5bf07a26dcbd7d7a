"""Limits shared by several processes: the backend decides, and this is one process's link to it.

The backend is Redis, or the parent of the processes of one host. A request in flight has a permit
there. In Redis the process renews its permits all the time, so that a long call never loses its
own, and those of a dead process expire after PERMIT_SECONDS; at the parent they end with the
process. Commands gather while a batch is under way and are sent together. When the backend does not
respond, every waiting request learns at once that the limits are unknown (`limiter.py` then
decides alone), and the backend gets no more requests. `run` reconnects and sends everything that
this process knows; only then does the backend decide again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from actors.clock import Clock
from actors.limits.backend import (
    Backend,
    BackendUnavailable,
    EnterCommand,
    LimitCommand,
    ReleaseCommand,
    RenewCommand,
)
from actors.limits.redis_backend import RedisBackend, RedisCommands, scripts
from actors.limits.status import LimitStatus
from actors.store.redis import RedisLink
from metrics.logs import EventLog
from metrics.prometheus import Metrics

T = TypeVar("T")
Windows = Iterable[tuple[str, list[tuple[int, float]]]]

# Four beats may fail or be late before the permit of a live process expires.
BEAT_SECONDS = 2.0
BATCH_MAX = 256
# A reconnect sends everything at once, in pieces that the server executes in a few milliseconds.
CHUNK = 200
PIECES = 16
TIMEOUT_FACTOR = 10
# Pause between attempts to reconnect; it is reset after STEADY_SECONDS of good replies.
PAUSE_FIRST_SECONDS = 0.25
PAUSE_MAX_SECONDS = 5.0
STEADY_SECONDS = 10.0
# Renewed like a permit, so that every beat writes something, which a replica refuses.
PROCESSES = "processes"


class SharedLimits:
    """The link of one process to the backend shared by all."""

    def __init__(self, *, backend: Backend, clock: Clock, metrics: Metrics) -> None:
        self._backend = backend
        self._clock = clock
        self._metrics = metrics
        # Requests admitted here in the last minute, with ages; set by the limiter.
        self.windows: Callable[[], Windows] = tuple
        self._state: Literal["down", "returning", "up"] = "down"
        self._is_degraded = False
        self._queue: list[LimitCommand] = []
        self._wake = asyncio.Event()
        # All requests in flight under a limit; True: the backend may know of it.
        self._permits: dict[str, dict[int, bool]] = {}
        self._owed: list[ReleaseCommand] = []  # still counted; sent on reconnecting
        self._pause_seconds = 0.0
        self._up_since = 0.0
        self._log = EventLog("actors.limits")

    @classmethod
    def over_redis(
        cls, redis_url: str, *, process_id: str, clock: Clock, metrics: Metrics
    ) -> SharedLimits:
        """Make the limits that a process shares through Redis."""
        backend = RedisBackend(RedisLink(redis_url, scripts()), RedisCommands(process_id))
        return cls(backend=backend, clock=clock, metrics=metrics)

    @property
    def permits_expire(self) -> bool:
        """Whether `beat` is needed."""
        return self._backend.permits_expire

    @property
    def is_up(self) -> bool:
        """Whether `enter` uses the backend."""
        return self._state == "up"

    # What the limiter sends

    async def enter(
        self, name: str, slot: int, *, rpm: int | None, concurrency: int | None
    ) -> LimitStatus | None:
        """Request admission; None when the backend became unavailable."""
        reply: asyncio.Future[LimitStatus | None] = asyncio.get_running_loop().create_future()
        self._send(EnterCommand(name, slot, rpm, concurrency, reply))
        try:
            status = await reply
        except asyncio.CancelledError:
            self._give_back(
                ReleaseCommand(name, slot)
            )  # whatever the reply will be, the client has left
            raise
        if status is not None and status.refused is None and concurrency is not None:
            self._permits.setdefault(name, {})[slot] = True
        return status

    def admitted_alone(
        self, name: str, slot: int, *, in_window: bool, has_permit: bool, is_asked: bool
    ) -> None:
        """Report a request that was admitted without the backend.

        If the backend was asked, it may count the request: a frozen one executes its backlog.
        """
        if in_window and self._state != "down":
            self._send(RenewCommand(name, window=((slot, 0.0),)))
        if has_permit:
            self.permit(name, slot)
            if is_asked:
                self._permits[name][slot] = True

    def refused_alone(self, name: str, slot: int) -> None:
        """Report a request that was refused here, but which the backend may have admitted."""
        self._give_back(ReleaseCommand(name, slot, from_window=True))

    def permit(self, name: str, slot: int) -> None:
        """Report a request in flight that the backend has not been asked about."""
        is_sent = self._state != "down"
        self._permits.setdefault(name, {})[slot] = is_sent
        if is_sent:
            self._send(RenewCommand(name, permits=(slot,)))

    def permits(self, name: str) -> dict[int, bool]:
        """Return the slots with a permit, read-only."""
        return self._permits.get(name, {})

    def release(self, name: str, slot: int) -> None:
        """End a request; one without a permit is no error."""
        slots = self._permits.get(name)
        if slots is None or slot not in slots:
            return
        is_sent = slots.pop(slot)
        if not slots:
            del self._permits[name]
        if is_sent:
            self._give_back(ReleaseCommand(name, slot))

    def _give_back(self, release: ReleaseCommand) -> None:
        if self._state == "down":
            self._owed.append(release)
        else:
            self._send(release)

    def _send(self, command: LimitCommand) -> None:
        self._queue.append(command)
        self._wake.set()

    # What runs beside the requests

    async def start(self) -> None:
        """Try once to reach the backend before the first request; `run` tries again."""
        try:
            await self._return()
        except BackendUnavailable as error:
            self._degraded(error)

    async def run(self) -> None:
        """Send the commands to the backend and reconnect whenever it is lost."""
        try:
            while True:
                while not self.is_up:
                    await self._clock.sleep(self._pause_seconds)
                    await self.start()
                await self._send_batches()
        finally:
            self._abandon([])  # no request may wait for a reply that will not be sent

    async def beat(self) -> None:
        """Renew the permits forever."""
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            self.renew()

    def renew(self) -> None:
        """Renew every permit for PERMIT_SECONDS; if the backend is down, reconnecting does that."""
        if self.is_up:
            for command in self._known_permits():
                self._send(command)

    async def close(self) -> None:
        """Release everything and disconnect. `run` must have ended."""
        self._owed += [
            ReleaseCommand(name, slot) for name, slots in self._permits.items() for slot in slots
        ]
        self._permits = {}
        try:
            for batch in _chunks(self._owed, BATCH_MAX):
                await self._backend.call(batch)
        except BackendUnavailable as error:  # they expire by themselves
            self._log.info("permits_left", count=len(self._owed), why=str(error))
        finally:
            await self._backend.close()

    async def _return(self) -> None:
        """Connect and send everything; new commands wait until this is done."""
        self._pause_seconds = min(PAUSE_MAX_SECONDS, self._pause_seconds * 2 or PAUSE_FIRST_SECONDS)
        await self._backend.connect()
        self._state = "returning"
        owed, self._owed = self._owed, []
        known: list[LimitCommand] = [*owed, *self._known_permits(), *self._known_windows()]
        for slots in self._permits.values():
            slots.update(dict.fromkeys(slots, True))
        try:
            for batch in _chunks(known, PIECES):
                await self._backend.call(batch, timeout_factor=TIMEOUT_FACTOR)
        except BaseException:
            self._abandon(owed)
            raise
        self._state = "up"
        self._up_since = self._clock.monotonic()
        self._metrics.limits_degraded(False)
        if self._is_degraded:
            self._is_degraded = False
            self._log.info(f"{self._backend.name}_reached")

    async def _send_batches(self) -> None:
        """Send batch after batch; return when the backend is lost."""
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
            asked_at = self._clock.monotonic()
            try:
                statuses = await self._backend.call(batch)
            except BackendUnavailable as error:
                self._abandon(batch)
                if self._clock.monotonic() - self._up_since >= STEADY_SECONDS:
                    self._pause_seconds = 0.0
                self._degraded(error)
                return
            except BaseException:
                self._abandon(batch)
                raise
            self._metrics.limits_asked(self._clock.monotonic() - asked_at)
            for command, status in zip(batch, statuses, strict=True):
                if isinstance(command, EnterCommand) and not command.reply.done():
                    command.reply.set_result(status)

    def _abandon(self, batch: Sequence[LimitCommand]) -> None:
        """Mark the link as lost, and resolve the commands without a reply."""
        self._state = "down"
        unheard, self._queue = [*batch, *self._queue], []
        for command in unheard:
            if isinstance(command, ReleaseCommand):
                self._owed.append(command)
            elif isinstance(command, EnterCommand) and not command.reply.done():
                command.reply.set_result(None)

    def _degraded(self, error: BackendUnavailable) -> None:
        self._metrics.limits_degraded(True)
        if not self._is_degraded:
            self._is_degraded = True
            self._log.warning(f"{self._backend.name}_lost", why=str(error))

    # What this process knows

    def _known_permits(self) -> Iterator[RenewCommand]:
        yield RenewCommand(PROCESSES, permits=(0,))
        for name, slots in self._permits.items():
            for chunk in _chunks(list(slots), CHUNK):
                yield RenewCommand(name, permits=tuple(chunk))

    def _known_windows(self) -> Iterator[RenewCommand]:
        for name, admitted in self.windows():
            for chunk in _chunks(admitted, CHUNK):
                yield RenewCommand(name, window=tuple(chunk))


def _chunks(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(whole), size):
        yield whole[start : start + size]
