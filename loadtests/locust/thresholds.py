"""What a run must not exceed, and the words in which it is told whether it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
    """The most that is accepted; `p95_first_event_ms` is None where nobody asks for streams."""

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
