"""The live figures of the overview: what every process has done lately, a row each, added up.

A process with a console writes its sample, sums since its start, to the database once a second
while any console is watched; one that is watched reads all of them, once a second for all who look
on, and a figure is the difference over some seconds. A call adds nothing but its usual metrics, so
three thousand calls a second look like one.
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
from actors.clock import Clock
from actors.routing import ChannelDirectory
from actors.store.connection import StoreError
from actors.store.database import Database
from actors.store.queries import load
from channels.registry import ModelSpec
from gw.config.config import LiveConfig
from metrics.logs import EventLog
from metrics.prometheus import Metrics, Totals
from metrics.series import FIRST_BYTE_SECONDS

SQL = load("gw.console", "overview.sql")

TICK_SECONDS = 1.0
# A figure is the mean of so many seconds: calm, and never older than that.
WINDOW_SECONDS = 5.0
# Of the line behind a figure.
HISTORY = 90
# A process that has written nothing for so long has ended.
SAMPLE_SECONDS = 5.0
# While no overview is watched a sample is written so much more seldom, for the page of channels.
QUIET_TICKS = 10
QUIET_SECONDS = 30.0
# The last hour of a channel is known by the minute.
MINUTES = 60
# Money moves more slowly than calls, and its sum reads every account.
WALLETS_EVERY = 5
STREAMS_MAX = 64


class ChannelSample(Struct, frozen=True):
    """A channel in one process: state of its breaker, slots, attempts since the start."""

    state: str
    in_use: int
    slots: int
    attempts: int
    failures: int
    hour_attempts: int  # in the last hour, as the next two
    hour_failures: int
    hour_seconds: float  # of all of its attempts together
    key_seconds: list[float]  # for each key: how long it is still set aside


class Sample(Struct, frozen=True):
    """One process, since its start."""

    calls: int = 0
    errors: int = 0
    cost_nano_usd: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    saved_nano_usd: int = 0
    first_bytes: list[int] = field(default_factory=list)  # in each of FIRST_BYTE_SECONDS, and above
    channels: dict[str, ChannelSample] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)  # as `Metrics.conditions`


class Fleet(NamedTuple):
    """All processes together: their channels, and the names of conditions that any of them has."""

    channels: list[ChannelTile]
    conditions: list[str]


class ChannelTile(Struct, frozen=True):
    """A channel over all processes: the worst state, and failed attempts in the last seconds."""

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
        """How many keys there are."""
        return len(self.key_seconds)

    @property
    def aside(self) -> int:
        """How many of them some process has set aside."""
        return sum(seconds > 0 for seconds in self.key_seconds)


class Board(Struct, frozen=True):
    """What an overview shows at one instant; None where there was nothing to measure."""

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
    """The sampler of one process, and the board of those who watch in it."""

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
        self._watchers: set[asyncio.Event] = set()
        self._wallets = (0, 0, 0)
        self._hour: deque[Totals] = deque(maxlen=MINUTES + 1)

    def __repr__(self) -> str:
        return f"<Figures {len(self._watchers)} watchers {len(self._boards)} boards>"

    @property
    def boards(self) -> Sequence[Board]:
        """The last ones, oldest first; none before a first look."""
        return tuple(self._boards)

    @property
    def is_full(self) -> bool:
        """Whether no more streams are taken."""
        return len(self._watchers) >= STREAMS_MAX

    def watch(self) -> asyncio.Event:
        """Take part: the event is set for each new board. `leave` ends it."""
        event = asyncio.Event()
        self._watchers.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """No longer take part."""
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
        """What all processes report, this one as it is now. Raises StoreError."""
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
        """What this process has done since it started."""
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
    """What input from caches has saved, each token at the price of its time."""

    def __init__(self) -> None:
        self.nano_usd = Decimal(0)
        self._seen: dict[str, int] = {}  # tokens by model

    def __repr__(self) -> str:
        return f"<Savings {self.nano_usd}>"

    def add(self, cached_tokens: Mapping[str, int], models: Mapping[str, ModelSpec]) -> None:
        """Count what has come since the last time."""
        for name, cached in cached_tokens.items():
            more = cached - self._seen.get(name, 0)
            self._seen[name] = cached
            if more and (model := models.get(name)) is not None:
                self.nano_usd += more * saved_nano_usd(model)


def saved_nano_usd(model: ModelSpec) -> Decimal:
    """What a token of input costs less when it comes from the cache."""
    price = model.price
    if price.input is None or price.cached_input is None:
        return Decimal(0)
    return (price.input - price.cached_input) * model.multiplier * 1000


Samples = Mapping[str, tuple[datetime, Sample]]


def board_of(readings: Sequence[Samples]) -> Board:
    """What some readings of all processes come to; the oldest first. Pure."""
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
    """Each process before and after, from reading to reading; one that has just come has none."""
    for before, after in pairwise(readings):
        for name, (_, sample) in after.items():
            if name in before:
                yield before[name][1], sample


def _seconds(readings: Sequence[Samples]) -> float:
    """How long the readings span, by the clock of the database."""
    first, last = (
        max((at for at, _ in one.values()), default=None) for one in (readings[0], readings[-1])
    )
    if first is None or last is None:
        return TICK_SECONDS
    return max((last - first).total_seconds(), TICK_SECONDS / 2)


def _median(steps: Sequence[tuple[Sample, Sample]]) -> float | None:
    """The upper bound of the bucket that half of the first bytes came within, in seconds."""
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
    """The channels of all processes, in the order of their ids."""
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
        # Processes of two configurations may have different numbers of keys.
        key_seconds=[
            max(some) for some in zip_longest(*[one.key_seconds for one in each], fillvalue=0.0)
        ],
    )
