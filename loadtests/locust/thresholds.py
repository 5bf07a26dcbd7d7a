"""What a run must not exceed, and the report of whether it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BUSIEST_SECONDS = 10  # in which the rate of calls that a machine holds is taken
FULL_SHARE = 0.85  # of a core, or of all of them: more work waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run came to. `p95_first_event_ms`: of the slowest protocol, None without a stream."""

    calls: int
    failures: int
    p95_first_event_ms: float | None

    @property
    def failure_ratio(self) -> float:
        """The share of calls that ended as they must not."""
        return self.failures / self.calls if self.calls else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The most that is accepted; `p95_first_event_ms` is None without streams."""

    p95_first_event_ms: float | None
    failure_ratio: float

    def verdicts(self, measured: Measured) -> Iterator[tuple[bool, str]]:
        """Yield for each threshold whether it was kept, and a line for people."""
        first, most = measured.p95_first_event_ms, self.p95_first_event_ms
        if most is not None:
            is_quick = first is not None and first <= most
            shown = "no stream had an event" if first is None else f"{first:.0f} ms"
            yield is_quick, f"p95 time to first event: {shown}, at most {most:g} ms"
        ratio = measured.failure_ratio
        yield (
            ratio <= self.failure_ratio,
            f"failures: {measured.failures} of {measured.calls} calls ({ratio:.3%}), "
            f"at most {self.failure_ratio:.3%}",
        )


def busiest_rate(per_second: Mapping[int, int]) -> float:
    """The most calls a second over `BUSIEST_SECONDS` in a row, or over a shorter run.

    `per_second` has how many were answered in each second of Unix time.
    """
    if not per_second:
        return 0.0
    first, last = min(per_second), max(per_second)
    counts = [per_second.get(second, 0) for second in range(first, last + 1)]
    length = min(BUSIEST_SECONDS, len(counts))
    sums = (sum(counts[start : start + length]) for start in range(len(counts) - length + 1))
    return max(sums) / length


def conclusion(
    *,
    rate: float,
    p95_ms: float,
    is_kept: bool,
    gateway_cores: float | None,
    busy_cores: float,
    cores: int,
) -> str:
    """The sentence that a run ends with.

    `gateway_cores`: the most that the gateway's one process took, None for a gateway of unknown
    processes; `busy_cores`: what all processes took at most, of the machine's `cores`.
    """
    holds = "holds" if is_kept else "does not hold"
    begun = f"this machine {holds} {rate:.0f} calls/s at p95 {p95_ms:.0f} ms"
    if gateway_cores is None:
        return f"{begun}; whether one more process would hold more is seen without --host"
    took = f"the gateway took {gateway_cores:.2f} of its core"
    if gateway_cores < FULL_SHARE:
        why = "is not needed" if is_kept else "would not help"
        return f"{begun}; one more process {why}: {took}"
    if busy_cores > FULL_SHARE * cores:
        took += f", all took {busy_cores:.1f} of {cores}"
        return f"{begun}; one more process needs a core first: {took}"
    return f"{begun}; one more process would hold up to {rate:.0f} more: {took}"
