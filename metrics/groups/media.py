"""Asynchronous jobs, the polls that watch them, and the copies of their results."""

from __future__ import annotations

from collections.abc import Mapping

from metrics.families import Families

OUTCOMES = ("kept", "retried", "failed", "left")


class MediaStoreMetrics:
    """Attempts by outcome, and the bytes fetched."""

    def __init__(self, make: Families) -> None:
        self._copies = make.counter("gw_media_copies_total")
        for outcome in OUTCOMES:
            self._copies[(outcome,)].value = 0  # a rate needs the 0 before the first
        self._bytes = make.counter("gw_media_copy_bytes_total")[()]

    def copied(self, outcome: str) -> None:
        """Count an attempt: kept, retried, failed or left."""
        self._copies[(outcome,)].value += 1

    def bytes(self, count: int) -> None:
        """Add received bytes."""
        self._bytes.value += count


class TaskMetrics:
    """Jobs by end state, polls by outcome."""

    def __init__(self, make: Families) -> None:
        self._in_flight = make.gauge("gw_tasks_in_flight")
        self._ended = make.counter("gw_tasks_total")
        self._seconds = make.histogram("gw_task_seconds")
        self._polls = make.counter("gw_task_polls_total")
        self._lag = make.histogram("gw_task_poll_lag_seconds")[()]
        self._unknown = make.counter("gw_task_submit_unknown_total")
        self._doubted = make.counter("gw_task_lengths_doubted_total")
        self._takeovers = make.counter("gw_task_takeovers_total")[()]

    def in_flight(self, counts: Mapping[str, int]) -> None:
        """Set the open jobs in the database by kind, as last counted; every kind is included."""
        for kind, count in counts.items():
            self._in_flight[(kind,)].value = count

    def ended(self, *, kind: str, state: str, seconds: float) -> None:
        """Count a job that ended here, so long after its submission."""
        self._ended[kind, state].value += 1
        self._seconds[(kind,)].observe(seconds)

    def polled(self, *, channel: str, outcome: str, lag_seconds: float) -> None:
        """Count a poll, so long after it was scheduled."""
        self._polls[channel, outcome].value += 1
        self._lag.observe(lag_seconds)

    def submit_unknown(self, channel: str) -> None:
        """Count a submission of unknown outcome."""
        self._unknown[(channel,)].value += 1

    def length_doubted(self, channel: str) -> None:
        """Count a video with an implausible reported length."""
        self._doubted[(channel,)].value += 1

    def taken_over(self) -> None:
        """Count a poll made here that another process never finished."""
        self._takeovers.value += 1
