"""What becomes of asynchronous jobs, and of the polls that watch them."""

from __future__ import annotations

from collections.abc import Mapping

from metrics.families import Families


class TaskMetrics:
    """Jobs by how they end, polls by what they bring."""

    def __init__(self, make: Families) -> None:
        self._in_flight = make.gauge("gw_tasks_in_flight")
        self._ended = make.counter("gw_tasks_total")
        self._seconds = make.histogram("gw_task_seconds")
        self._polls = make.counter("gw_task_polls_total")
        self._lag = make.histogram("gw_task_poll_lag_seconds")[()]
        self._unknown = make.counter("gw_task_submit_unknown_total")
        self._takeovers = make.counter("gw_task_takeovers_total")[()]

    def in_flight(self, counts: Mapping[str, int]) -> None:
        """Jobs open in the database, by kind, as last counted; every kind is there."""
        for kind, count in counts.items():
            self._in_flight[(kind,)].value = count

    def ended(self, *, kind: str, state: str, seconds: float) -> None:
        """A job ended here, so long after its submission had come."""
        self._ended[kind, state].value += 1
        self._seconds[(kind,)].observe(seconds)

    def polled(self, *, channel: str, outcome: str, lag_seconds: float) -> None:
        """A poll is done, so long after it was due."""
        self._polls[channel, outcome].value += 1
        self._lag.observe(lag_seconds)

    def submit_unknown(self, channel: str) -> None:
        """Count a submission of unknown outcome."""
        self._unknown[(channel,)].value += 1

    def taken_over(self) -> None:
        """A poll that another process never finished is made here."""
        self._takeovers.value += 1
