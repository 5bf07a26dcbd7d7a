"""The board of an overview: what the samples of all processes amount to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import NamedTuple

from msgspec import Struct, field

from metrics.metric_families import FIRST_BYTE_SECONDS

TICK_SECONDS = 1.0


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
    rest_seconds: list[float] = []  # for each key: how long it still rests after a 429


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


class FleetFigures(NamedTuple):
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
    rest_seconds: list[float]

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
        channels=channel_tiles(last, steps),
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


def _longest(of_processes: Sequence[Sequence[float]]) -> list[float]:
    """Return for each key the most that a process has."""
    return [max(some) for some in zip_longest(*of_processes, fillvalue=0.0)]


def channel_tiles(
    last: Sequence[Sample], steps: Sequence[tuple[Sample, Sample]]
) -> list[ChannelTile]:
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
        key_seconds=_longest([one.key_seconds for one in each]),
        rest_seconds=_longest([one.rest_seconds for one in each]),
    )
