"""The live figures of the overview: a sample of each process, summed.

While any overview is watched, each process with a console writes its sample, sums since its start,
to the database once a second; a process that is watched reads all of them once a second for all of
its watchers, and a figure is a difference over some seconds. A call costs only its usual metrics,
at any rate of calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise, zip_longest
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from actors.channel import ChannelActor
from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.connection import StoreError
from actors.store.database import Database
from actors.store.queries import load
from channels.registry import ModelSpec
from channels.shares import Shares
from gw.config.live import LiveConfig
from metrics.logs import EventLog
from metrics.prometheus import Metrics, Totals
from metrics.series import FIRST_BYTE_SECONDS

SQL = load("gw.console", "overview.sql")

TICK_SECONDS = 1.0
# The period of a mean, in seconds: long enough to be steady.
WINDOW_SECONDS = 5.0
# The number of boards in the line of a figure.
HISTORY = 90
# A process that has written nothing for this time counts as ended.
SAMPLE_SECONDS = 5.0
# Without a watcher a sample is written every QUIET_TICKS, for the page of channels.
QUIET_TICKS = 10
QUIET_SECONDS = 30.0
# The last hour of a channel is sampled by the minute.
MINUTES = 60
# The sum of wallets reads every account, so it is read less often.
WALLETS_EVERY = 5
# Streams of one process, of which one account, or one session of an operator, has at most
# STREAMS_EACH_MAX: a few windows.
STREAMS_MAX = 64
STREAMS_EACH_MAX = 8


class ChannelSample(Struct, frozen=True):
    """A channel in one process: its breaker's state, slots, and attempts since the start."""

    state: str
    in_use: int
    slots: int
    attempts: int
    failures: int
    hour_attempts: int  # in the last hour, as the next two
    hour_failures: int
    hour_seconds: float  # the sum over these attempts
    key_seconds: list[float]  # for each key: the time until it is used again


class Sample(Struct, frozen=True):
    """The sums of one process since its start."""

    calls: int = 0
    errors: int = 0
    cost_nano_usd: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    saved_nano_usd: int = 0
    first_bytes: list[int] = field(default_factory=list)  # per bucket of FIRST_BYTE_SECONDS
    channels: dict[str, ChannelSample] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)  # as `Metrics.conditions`


class Fleet(NamedTuple):
    """All processes: their channels, and the names of their conditions."""

    channels: list[ChannelTile]
    conditions: list[str]


class ChannelTile(Struct, frozen=True):
    """A channel over all processes: the worst state, and attempts in the window."""

    id: str
    state: str
    in_use: int
    slots: int
    attempts: int
    failures: int
    hour_attempts: int
    hour_failures: int
    hour_seconds: float
    key_seconds: list[float]

    @property
    def keys(self) -> int:
        """The number of keys."""
        return len(self.key_seconds)

    @property
    def aside(self) -> int:
        """The number of keys that some process has set aside."""
        return sum(seconds > 0 for seconds in self.key_seconds)


class Board(Struct, frozen=True):
    """The figures of an overview at one instant; None if there was nothing to measure."""

    calls_per_second: float = 0.0
    usd_per_hour: float = 0.0
    errors_per_second: float = 0.0
    first_byte_seconds: float | None = None
    in_flight: int = 0
    cached_share: float | None = None
    saved_nano_usd: int = 0  # since the processes started
    processes: int = 0
    accounts: int = 0
    balance_nano_usd: int = 0
    held_nano_usd: int = 0
    channels: list[ChannelTile] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The samples of one reading, by process."""

    at: float
    samples: Mapping[str, tuple[datetime, Sample]]


class Figures:
    """The sampler of one process, and the boards for its watchers."""

    def __init__(
        self,
        *,
        process_id: str,
        database: Database,
        current: LiveConfig,
        channels: ChannelDirectory,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._process_id = process_id
        self._database = database
        self._current = current
        self._channels = channels
        self._metrics = metrics
        self._clock = clock
        self._savings = Savings()
        self._seen: deque[_Seen] = deque()
        self._boards: deque[Board] = deque(maxlen=HISTORY)
        self.streams = Shares(STREAMS_MAX, STREAMS_EACH_MAX)
        self._watchers: set[asyncio.Event] = set()
        self._wallets = (0, 0, 0)
        self._hour: deque[Totals] = deque(maxlen=MINUTES + 1)

    def __repr__(self) -> str:
        return f"<Figures {len(self._watchers)} watchers {len(self._boards)} boards>"

    @property
    def boards(self) -> Sequence[Board]:
        """The last boards, the oldest first; empty without a watcher."""
        return tuple(self._boards)

    def watch(self) -> asyncio.Event:
        """Return an event that is set for each new board, until `leave`."""
        event = asyncio.Event()
        self._watchers.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Stop setting this watcher's event."""
        self._watchers.discard(event)

    async def run(self) -> None:
        """Sample until cancelled."""
        log = EventLog("gw.console")
        ticks = 0
        while True:
            await self._clock.sleep(TICK_SECONDS)
            try:
                await self._tick(ticks)
            except StoreError as error:
                log.debug("sample_lost", error=str(error))
            ticks += 1

    async def _tick(self, ticks: int) -> None:
        if ticks % 60 == 0:
            self._hour.append(self._metrics.totals())
        sample = msgspec.json.encode(self.sample()).decode()
        row = {
            "process": self._process_id,
            "sample": sample,
            "is_watched": bool(self._watchers),
            "is_due": ticks % QUIET_TICKS == 0,
            "seconds": SAMPLE_SECONDS,
        }
        await self._database.execute(SQL["give_sample"], row)
        if not self._watchers:
            self._seen.clear()
            self._boards.clear()
            return
        if ticks % WALLETS_EVERY == 0 or not self._boards:
            ((count, balance, held),) = await self._database.fetch_all(SQL["wallets"])
            self._wallets = (count, int(balance), int(held))
        await self._read()
        for event in self._watchers:
            event.set()

    async def fleet(self) -> Fleet:
        """Return what all processes report, with a fresh sample of this one. Raises StoreError."""
        samples = await self._samples(QUIET_SECONDS)
        own = {self._process_id: self.sample()}
        last = list(({name: one for name, (_, one) in samples.items()} | own).values())
        return Fleet(_tiles(last, ()), sorted({name for one in last for name in one.conditions}))

    async def _samples(self, seconds: float) -> dict[str, tuple[datetime, Sample]]:
        rows = await self._database.fetch_all(SQL["samples"], {"seconds": seconds})
        return {name: (at, msgspec.convert(sample, Sample)) for name, at, sample in rows}

    async def _read(self) -> None:
        samples = await self._samples(SAMPLE_SECONDS)
        now = self._clock.monotonic()
        self._seen.append(_Seen(now, samples))
        while now - self._seen[0].at > WINDOW_SECONDS:
            self._seen.popleft()
        count, balance, held = self._wallets
        board = board_of([one.samples for one in self._seen])
        self._boards.append(
            msgspec.structs.replace(
                board, accounts=count, balance_nano_usd=balance, held_nano_usd=held
            )
        )

    def sample(self) -> Sample:
        """Return the sums of this process since its start."""
        totals = self._metrics.totals()
        self._savings.add(totals.cached_tokens, self._current.registry.models)
        return Sample(
            calls=totals.calls,
            errors=totals.errors,
            cost_nano_usd=totals.cost_nano_usd,
            in_flight=totals.in_flight,
            input_tokens=totals.input_tokens,
            cached_tokens=sum(totals.cached_tokens.values()),
            saved_nano_usd=int(self._savings.nano_usd),
            first_bytes=totals.first_bytes,
            conditions=self._metrics.conditions(self._clock.now()),
            channels={
                name: _channel(actor, totals, self._hour, self._clock.monotonic())
                for name, actor in self._channels.items()
            },
        )


def _channel(
    actor: ChannelActor, totals: Totals, hour: Sequence[Totals], now: float
) -> ChannelSample:
    name = actor.spec.id
    before = hour[0] if hour else totals
    return ChannelSample(
        state="withdrawn" if actor.is_withdrawn else actor.health.state,
        in_use=actor.in_use,
        slots=actor.spec.max_concurrency,
        attempts=totals.attempts[name],
        failures=totals.failures[name],
        hour_attempts=totals.attempts[name] - before.attempts[name],
        hour_failures=totals.failures[name] - before.failures[name],
        hour_seconds=totals.seconds.get(name, 0.0) - before.seconds.get(name, 0.0),
        key_seconds=[max(0.0, key.aside_until - now) for key in actor.spec.ring.keys],
    )


class Savings:
    """The savings by cached input, each token at the price in force."""

    def __init__(self) -> None:
        self.nano_usd = Decimal(0)
        self._seen: dict[str, int] = {}  # tokens by model

    def __repr__(self) -> str:
        return f"<Savings {self.nano_usd}>"

    def add(self, cached_tokens: Mapping[str, int], models: Mapping[str, ModelSpec]) -> None:
        """Add the tokens since the last call."""
        for name, cached in cached_tokens.items():
            more = cached - self._seen.get(name, 0)
            self._seen[name] = cached
            if more and (model := models.get(name)) is not None:
                self.nano_usd += more * saved_nano_usd(model)


def saved_nano_usd(model: ModelSpec) -> Decimal:
    """Return what a cached input token saves, in nano-USD."""
    price = model.price
    if price.input is None or price.cached_input is None:
        return Decimal(0)
    return (price.input - price.cached_input) * model.multiplier * 1000


Samples = Mapping[str, tuple[datetime, Sample]]


def board_of(readings: Sequence[Samples]) -> Board:
    """Return the board of some readings of all processes, the oldest first."""
    if not readings:
        return Board()
    last = [sample for _, sample in readings[-1].values()]
    seconds = _seconds(readings)
    steps = list(_steps(readings))

    def moved(name: str) -> int:
        return sum(getattr(after, name) - getattr(before, name) for before, after in steps)

    entered, cached = moved("input_tokens"), moved("cached_tokens")
    return Board(
        calls_per_second=moved("calls") / seconds,
        usd_per_hour=moved("cost_nano_usd") / seconds * 3600 / 1e9,
        errors_per_second=moved("errors") / seconds,
        first_byte_seconds=_median(steps),
        in_flight=sum(one.in_flight for one in last),
        cached_share=cached / entered if entered else None,
        saved_nano_usd=sum(one.saved_nano_usd for one in last),
        processes=len(last),
        channels=_tiles(last, steps),
    )


def _steps(readings: Sequence[Samples]) -> Iterator[tuple[Sample, Sample]]:
    """Yield each process's samples of consecutive readings that both have it."""
    for before, after in pairwise(readings):
        for name, (_, sample) in after.items():
            if name in before:
                yield before[name][1], sample


def _seconds(readings: Sequence[Samples]) -> float:
    """Return the time that the readings span, by the database's clock."""
    first, last = (
        max((at for at, _ in one.values()), default=None) for one in (readings[0], readings[-1])
    )
    if first is None or last is None:
        return TICK_SECONDS
    return max((last - first).total_seconds(), TICK_SECONDS / 2)


def _median(steps: Sequence[tuple[Sample, Sample]]) -> float | None:
    """Return the upper bound of the median's bucket of first bytes, in seconds."""
    counts = [0] * (len(FIRST_BYTE_SECONDS) + 1)
    for before, after in steps:
        for index, count in enumerate(after.first_bytes):
            counts[index] += count - (before.first_bytes[index] if before.first_bytes else 0)
    half, reached = sum(counts) / 2, 0
    if not half:
        return None
    for bound, count in zip(FIRST_BYTE_SECONDS, counts, strict=False):
        reached += count
        if reached >= half:
            return bound
    return FIRST_BYTE_SECONDS[-1]


_WORST = {"closed": 0, "half_open": 1, "open": 2, "withdrawn": 3}


def _tiles(last: Sequence[Sample], steps: Sequence[tuple[Sample, Sample]]) -> list[ChannelTile]:
    """Return the channels of all processes, by id."""
    return [
        _tile(
            channel_id,
            [one.channels[channel_id] for one in last if channel_id in one.channels],
            steps,
        )
        for channel_id in sorted({name for one in last for name in one.channels})
    ]


def _tile(
    channel_id: str, each: Sequence[ChannelSample], steps: Sequence[tuple[Sample, Sample]]
) -> ChannelTile:
    moved = [
        (before.channels[channel_id], after.channels[channel_id])
        for before, after in steps
        if channel_id in before.channels and channel_id in after.channels
    ]
    return ChannelTile(
        id=channel_id,
        state=max((one.state for one in each), key=lambda state: _WORST.get(state, 0)),
        in_use=sum(one.in_use for one in each),
        slots=sum(one.slots for one in each),
        attempts=sum(after.attempts - before.attempts for before, after in moved),
        failures=sum(after.failures - before.failures for before, after in moved),
        hour_attempts=sum(one.hour_attempts for one in each),
        hour_failures=sum(one.hour_failures for one in each),
        hour_seconds=sum(one.hour_seconds for one in each),
        # Processes of two configurations may differ in their number of keys.
        key_seconds=[
            max(some) for some in zip_longest(*[one.key_seconds for one in each], fillvalue=0.0)
        ],
    )
