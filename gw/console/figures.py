"""The live figures of the overview: a sample of each process, summed.

While any overview is watched, each process with a console writes its sample, sums since its start,
to the database once a second; a process that is watched reads all of them once a second for all of
its watchers, and a figure is a difference over some seconds. A call costs only its usual metrics,
at any rate of calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from actors.channel import ChannelActor
from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.queries import load
from channels.shares import Shares
from gw.config.live import LiveConfig
from gw.console.board import (
    TICK_SECONDS,
    Board,
    ChannelSample,
    FleetFigures,
    Sample,
    board_of,
    channel_tiles,
)
from gw.console.savings import Savings
from metrics.logs import EventLog
from metrics.prometheus import Metrics, Totals

SQL = load("gw.console", "overview.sql")

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

    async def fleet(self) -> FleetFigures:
        """Return what all processes report, with a fresh sample of this one. Raises StoreError."""
        samples = await self._samples(QUIET_SECONDS)
        own = {self._process_id: self.sample()}
        last = list(({name: one for name, (_, one) in samples.items()} | own).values())
        return FleetFigures(
            channel_tiles(last, ()), sorted({name for one in last for name in one.conditions})
        )

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
        rest_seconds=[max(0.0, key.rests_until - now) for key in actor.spec.ring.keys],
    )
