"""The two limits of an account, over all its keys, and their headers (spec: Limits).

A refused request takes nothing: it is neither in the window nor in flight. An admission is left
once, in every exit path; leaving it again has no effect.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Generic, TypeVar

from actors.clock import Clock
from actors.limits.shared import WINDOW_SECONDS, Dimension, LimitStatus, SharedLimits
from metrics.prometheus import Metrics

# Drops the idle entries of a dictionary a few at a time, so that no round takes long.
#
# For dictionaries that grow with the number of accounts seen: a scan of all entries every second
# would block the event loop.

T = TypeVar("T")

# Every entry is checked once in so many rounds, and at least FEWEST entries per round.
LAP_ROUNDS = 64
FEWEST = 256


class IdleSweep(Generic[T]):
    """Cycles through the entries added to it; the maker of an entry adds it, once."""

    def __init__(self, entries: dict[str, T]) -> None:
        self._entries = entries
        self._names: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<IdleSweep {len(self._names)} entries>"

    def add(self, name: str) -> None:
        """Add an entry by name. Only the sweep removes it."""
        self._names.append(name)

    def round(self, is_idle: Callable[[T], bool]) -> int:
        """Check the next few entries, drop the idle ones, return how many were checked."""
        names = self._names
        count = min(len(names), max(FEWEST, -(-len(names) // LAP_ROUNDS)))
        for _ in range(count):
            name = names.popleft()
            if is_idle(self._entries[name]):
                del self._entries[name]
            else:
                names.append(name)
        return count


Slot = TypeVar("Slot", bound=Hashable)


class WindowUsage(Generic[Slot]):
    """The usage of one name: its admissions, oldest first, and the slots in flight."""

    __slots__ = ("_admitted", "flying")

    def __init__(self) -> None:
        # Time and slot of each admission, oldest first. None before the first: an empty deque takes
        # as much memory as the rest of an account without limits.
        self._admitted: deque[tuple[float, Slot]] | None = None
        self.flying: set[Slot] = set()

    @property
    def requests(self) -> int:
        """The number of admissions in the window."""
        return len(self._admitted) if self._admitted else 0

    def admitted(self) -> Iterable[tuple[float, Slot]]:
        """Return times and slots, oldest first."""
        return self._admitted or ()

    def admitted_at(self, index: int) -> float:
        """Return the time of one of the `requests`; 0 is the oldest."""
        assert self._admitted is not None
        return self._admitted[index][0]

    def admit(self, now: float, slot: Slot) -> None:
        """Add the newest admission."""
        if self._admitted is None:
            self._admitted = deque()
        self._admitted.append((now, slot))

    def trim(self, now: float) -> None:
        """Drop the admissions that are older than the window."""
        admitted = self._admitted
        while admitted and now - admitted[0][0] >= WINDOW_SECONDS:
            admitted.popleft()

    def is_idle(self, now: float) -> bool:
        """Whether the entry can be dropped."""
        requests = self.requests
        return not self.flying and (
            requests == 0 or now - self.admitted_at(requests - 1) >= WINDOW_SECONDS
        )


# Requests per minute and requests in flight, by name, as seen by this process.
#
# Exact and sans I/O: the window keeps every admission, and the time is an argument. It decides
# alone without Redis, or while that is unavailable, and otherwise only keeps the figures.


class SlidingWindows(Generic[Slot]):
    """The usage of each name. A slot identifies one request."""

    def __init__(self) -> None:
        self._usage: dict[str, WindowUsage[Slot]] = {}
        self._sweep = IdleSweep(self._usage)

    def __repr__(self) -> str:
        flying = sum(len(usage.flying) for usage in self._usage.values())
        return f"<SlidingWindows {len(self._usage)} names {flying} in flight>"

    def judge(
        self, name: str, slot: Slot, *, rpm: int | None, concurrency: int | None, now: float
    ) -> LimitStatus:
        """Admit the request if both limits have room; a refused one takes nothing."""
        usage = self.of(name)
        usage.trim(now)
        refused: Dimension | None = None
        retry_seconds = 0.0
        requests = usage.requests
        if rpm is not None and requests >= rpm:
            refused = "rpm"
            # If the limit was lowered meanwhile, several of the oldest have to age out.
            freeing = usage.admitted_at(requests - rpm)
            retry_seconds = WINDOW_SECONDS - (now - freeing)
        elif concurrency is not None and len(usage.flying) >= concurrency:
            refused = "concurrency"
        else:
            if rpm is not None:
                usage.admit(now, slot)
                requests += 1
            usage.flying.add(slot)
        oldest_seconds = now - usage.admitted_at(0) if requests else WINDOW_SECONDS
        return LimitStatus(
            refused=refused,
            requests=requests,
            reset_seconds=WINDOW_SECONDS - oldest_seconds,
            retry_seconds=retry_seconds,
            in_flight=len(usage.flying),
        )

    def note(self, name: str, slot: Slot, *, in_window: bool, now: float) -> None:
        """Count a request that the backend admitted."""
        usage = self.of(name)
        usage.trim(now)
        if in_window:
            usage.admit(now, slot)
        usage.flying.add(slot)

    def flying(self, name: str) -> Collection[Slot]:
        """Return the slots of the requests in flight."""
        usage = self._usage.get(name)
        return usage.flying if usage is not None else ()

    def names_in_flight(self) -> list[str]:
        """Return the names that have requests in flight."""
        return [name for name, usage in self._usage.items() if usage.flying]

    def windows(self, now: float) -> Iterator[tuple[str, list[tuple[Slot, float]]]]:
        """Yield each name with the slots admitted in the last 60 seconds and their ages."""
        for name, usage in list(self._usage.items()):
            usage.trim(now)
            if usage.requests:
                yield name, [(slot, now - at) for at, slot in usage.admitted()]

    def forget_idle(self, now: float) -> None:
        """Drop some of the names with an empty window and no request in flight."""
        self._sweep.round(lambda usage: usage.is_idle(now))

    def of(self, name: str) -> WindowUsage[Slot]:
        """Return the usage of a name."""
        usage = self._usage.get(name)
        if usage is None:
            usage = self._usage[name] = self._made()
            self._sweep.add(name)
        return usage

    def _made(self) -> WindowUsage[Slot]:
        return WindowUsage()


# The usage of all processes of one host, kept by their parent.
#
# It follows the rules of the window above and the commands of `shared.py`, like the scripts for
# Redis; but a permit lasts as long as its process, which the parent knows. Sans I/O.

WorkerSlot = tuple[int, int]  # the worker, and its own number for the request


class _SharedUsage(WindowUsage[WorkerSlot]):
    """Usage whose admissions can be found, added late and withdrawn."""

    __slots__ = ("_is_sorted", "_window")

    def __init__(self) -> None:
        super().__init__()
        self._window: OrderedDict[WorkerSlot, float] = OrderedDict()
        self._is_sorted = True

    @property
    def requests(self) -> int:
        return len(self._window)

    def admitted(self) -> Iterable[tuple[float, WorkerSlot]]:
        self._sort()
        return [(at, slot) for slot, at in self._window.items()]

    def admitted_at(self, index: int) -> float:
        self._sort()
        if index == len(self._window) - 1:
            return self._window[next(reversed(self._window))]
        return next(islice(self._window.values(), index, None))

    def admit(self, now: float, slot: WorkerSlot) -> None:
        self._window[slot] = now

    def trim(self, now: float) -> None:
        self._sort()
        window = self._window
        while window and now - next(iter(window.values())) >= WINDOW_SECONDS:
            window.popitem(last=False)

    def add_late(self, at: float, slot: WorkerSlot) -> None:
        """Add an earlier admission; a known one keeps its time."""
        if slot not in self._window:
            self._window[slot] = at
            self._is_sorted = False

    def withdraw(self, slot: WorkerSlot) -> None:
        """Remove an admission that was not used."""
        self._window.pop(slot, None)

    def _sort(self) -> None:
        if not self._is_sorted:
            self._window = OrderedDict(sorted(self._window.items(), key=lambda item: item[1]))
            self._is_sorted = True


class SharedWindows(SlidingWindows[WorkerSlot]):
    """The figures of all workers; a worker's permits end with it, its admissions still count."""

    def __init__(self) -> None:
        super().__init__()
        self._permits: dict[int, set[tuple[str, WorkerSlot]]] = {}

    def enter(
        self, name: str, slot: WorkerSlot, *, rpm: int | None, concurrency: int | None, now: float
    ) -> LimitStatus:
        """Admit the request if both limits have room; with a concurrency limit it gets a permit."""
        status = self.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now)
        if status.refused is None:
            if concurrency is None:
                self.of(name).flying.remove(slot)
            else:
                self._permits.setdefault(slot[0], set()).add((name, slot))
        return status

    def permit(self, name: str, slot: WorkerSlot) -> None:
        """Permit a request in flight that was admitted elsewhere, or is reported again."""
        self.of(name).flying.add(slot)
        self._permits.setdefault(slot[0], set()).add((name, slot))

    def add_late(self, name: str, slot: WorkerSlot, *, at: float) -> None:
        """Add a request that was admitted elsewhere."""
        self._shared(name).add_late(at, slot)

    def release(self, name: str, slot: WorkerSlot, *, from_window: bool) -> None:
        """End a request, or withdraw one that was never admitted; an unknown one is no error."""
        self._permits.get(slot[0], set()).discard((name, slot))
        usage = self._shared(name)
        usage.flying.discard(slot)
        if from_window:
            usage.withdraw(slot)

    def drop_permits(self, worker: int) -> None:
        """Drop all permits of a worker: it has ended, or will report everything again."""
        for name, slot in self._permits.pop(worker, ()):
            self._shared(name).flying.discard(slot)

    def _shared(self, name: str) -> _SharedUsage:
        usage = self.of(name)
        assert isinstance(usage, _SharedUsage)
        return usage

    def _made(self) -> _SharedUsage:
        return _SharedUsage()


# Limits by name: so many requests in any 60 seconds, so many in flight.
#
# `AccountLimits` uses account ids as names, the log API a prefix of its own (`logs:key_…`). A
# single process keeps them alone. Several processes share them (`shared.py`) through their parent
# or Redis; while that is unavailable each process continues with its own figures.

UNLIMITED = LimitStatus(refused=None, requests=0, reset_seconds=0.0, retry_seconds=0.0, in_flight=0)


class Limiter:
    """Admits requests and counts those in flight."""

    def __init__(self, *, clock: Clock, shared: SharedLimits | None = None) -> None:
        self._clock = clock
        self._shared = shared
        self._book: SlidingWindows[int] = SlidingWindows()
        self._slots = itertools.count()
        if shared is not None:
            shared.windows = lambda: self._book.windows(clock.monotonic())

    def __repr__(self) -> str:
        return f"<Limiter {self._book!r} {self._shared!r}>"

    async def take(self, name: str, limit: int) -> LimitStatus:
        """Admit one request of at most `limit` in any 60 seconds; it needs no `leave`.

        The status has the values of the response headers: `limit - requests` are left, the window
        resets in `reset_whole_seconds`, and a refused client may retry after `retry_after_seconds`.
        A refused request is not counted.
        """
        status, slot = await self.enter(name, rpm=limit, concurrency=None)
        if status.refused is None:
            self.leave(name, slot)
        return status

    async def enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> tuple[LimitStatus, int]:
        """Request admission. If it is granted, `leave` its slot once, at the end of the request.

        Requests in flight are also counted without a limit, for one that is set later.
        """
        alone = self.try_enter(name, rpm=rpm, concurrency=concurrency)
        if alone is not None:
            return alone
        shared = self._shared
        assert shared is not None
        slot = next(self._slots)
        in_window = rpm is not None
        is_asked = shared.is_up
        if is_asked:
            if concurrency is not None:
                self.share(name)
            shared_status = await shared.enter(name, slot, rpm=rpm, concurrency=concurrency)
            if shared_status is not None:
                if shared_status.refused is None:
                    now = self._clock.monotonic()
                    self._book.note(name, slot, in_window=in_window, now=now)
                return shared_status, slot
        now = self._clock.monotonic()
        status = self._book.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now)
        if status.refused is None:
            shared.admitted_alone(
                name,
                slot,
                in_window=in_window,
                has_permit=concurrency is not None,
                is_asked=is_asked,
            )
        elif is_asked:
            shared.refused_alone(name, slot)
        return status, slot

    def fly(self, name: str) -> int:
        """Count a request to which no limit applies, for one that is set later; return its slot."""
        slot = next(self._slots)
        self._book.of(name).flying.add(slot)
        return slot

    def try_enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> tuple[LimitStatus, int] | None:
        """Do the same as `enter` if no other process counts the name; else return None."""
        if rpm is None and concurrency is None:
            return UNLIMITED, self.fly(name)
        if self._shared is not None:
            return None
        slot = next(self._slots)
        now = self._clock.monotonic()
        return self._book.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now), slot

    def leave(self, name: str, slot: int) -> None:
        """End an admitted request."""
        self._book.of(name).flying.remove(slot)
        if self._shared is not None:
            self._shared.release(name, slot)

    def share(self, name: str) -> None:
        """Report requests that are in flight without a limit to the other processes.

        Called when a limit may have been set, from when they count.
        """
        if self._shared is None:
            return
        flying, permitted = self._book.flying(name), self._shared.permits(name)
        if len(flying) != len(permitted):
            for slot in [slot for slot in flying if slot not in permitted]:
                self._shared.permit(name, slot)

    def share_all(self) -> None:
        """Share every name, when a change of limits may have been missed."""
        for name in self._book.names_in_flight():
            self.share(name)

    def in_flight(self, name: str) -> int:
        """Return the number of requests in flight in this process."""
        return len(self._book.flying(name))

    def forget_idle(self) -> None:
        """Drop some of the idle names; called every second."""
        self._book.forget_idle(self._clock.monotonic())


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class LimitExceeded(Exception):
    """The account has reached one of its limits."""

    def __init__(
        self, dimension: str, limit: int, headers: Mapping[str, str], retry_after_seconds: int
    ) -> None:
        super().__init__(dimension)
        self.dimension = dimension  # "requests per minute" or "concurrency"
        self.limit = limit
        self.headers = headers
        self.retry_after_seconds = retry_after_seconds


class Permit:
    """The right to be in flight, until `leave`."""

    __slots__ = ("_limiter", "_slot", "account_id", "headers")

    def __init__(
        self, limiter: Limiter, account_id: str, slot: int, headers: Mapping[str, str]
    ) -> None:
        self._limiter = limiter
        self._slot: int | None = slot  # None once it is released
        self.account_id = account_id
        self.headers = headers

    def leave(self) -> None:
        """Release the slot. Releasing it again has no effect."""
        slot, self._slot = self._slot, None
        if slot is not None:
            self._limiter.leave(self.account_id, slot)


class AccountLimits:
    """Admits requests of accounts within their limits."""

    def __init__(self, *, limiter: Limiter, metrics: Metrics) -> None:
        self._limiter = limiter
        self._metrics = metrics

    async def enter(self, account_id: str, *, rpm: int | None, concurrency: int | None) -> Permit:
        """Admit one request. Raises LimitExceeded with the headers of the response."""
        status, slot = await self._limiter.enter(account_id, rpm=rpm, concurrency=concurrency)
        return self._admission(account_id, status, slot, rpm, concurrency)

    def try_enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> Permit | None:
        """Do the same as `enter` if no other process is involved; else return None."""
        if rpm is None and concurrency is None:
            return Permit(self._limiter, account_id, self._limiter.fly(account_id), _NO_HEADERS)
        entered = self._limiter.try_enter(account_id, rpm=rpm, concurrency=concurrency)
        return entered and self._admission(account_id, *entered, rpm, concurrency)

    def _admission(
        self,
        account_id: str,
        status: LimitStatus,
        slot: int,
        rpm: int | None,
        concurrency: int | None,
    ) -> Permit:
        if status is UNLIMITED:
            return Permit(self._limiter, account_id, slot, _NO_HEADERS)
        headers = _headers(status, rpm, concurrency)
        if status.refused is None:
            return Permit(self._limiter, account_id, slot, headers)
        self._metrics.limit_refused(status.refused)
        retry_after_seconds = status.retry_after_seconds
        headers["Retry-After"] = str(retry_after_seconds)
        if status.refused == "rpm":
            assert rpm is not None
            raise LimitExceeded("requests per minute", rpm, headers, retry_after_seconds)
        assert concurrency is not None
        raise LimitExceeded("concurrency", concurrency, headers, retry_after_seconds)

    def in_flight(self, account_id: str) -> int:
        """Return the requests of the account in flight in this process."""
        return self._limiter.in_flight(account_id)


def _headers(status: LimitStatus, rpm: int | None, concurrency: int | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if rpm is not None:
        headers["x-ratelimit-limit-requests"] = str(rpm)
        headers["x-ratelimit-remaining-requests"] = str(max(0, rpm - status.requests))
        headers["x-ratelimit-reset-requests"] = str(status.reset_whole_seconds)
    if concurrency is not None:
        headers["x-ratelimit-limit-concurrency"] = str(concurrency)
        headers["x-ratelimit-remaining-concurrency"] = str(max(0, concurrency - status.in_flight))
    return headers
