"""When a channel may be used: the circuit breaker as a table, without a clock of its own.

    state      event                      next state   also
    closed     success                    closed       failures = 0
    closed     failure, fewer than limit  closed       failures + 1
    closed     failure, the limit         open         open until now + cooldown
    open       lease before that instant  open         refused
    open       lease after it             half_open    that lease is the probe
    half_open  lease while probing        half_open    refused
    half_open  probe succeeds             closed       failures = 0
    half_open  probe fails                open         open until now + cooldown
    half_open  probe is abandoned         half_open    the next lease is the probe

Results of calls that began before the channel opened change nothing while it is open or
half_open: only the probe decides (contract §4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from channels.registry import HealthSpec

State = Literal["closed", "open", "half_open"]
# What a finished attempt says of its channel; abandoned: nothing either way.
Verdict = Literal["success", "failure", "abandoned"]


@dataclass(frozen=True, slots=True)
class Health:
    """The breaker of one channel. `open_until` is in monotonic seconds."""

    state: State = "closed"
    failures: int = 0
    open_until: float = 0.0
    is_probing: bool = False

    def may_lease(self, now: float) -> bool:
        """Would a lease at `now` be granted, slots aside?"""
        if self.state == "open":
            return now >= self.open_until
        return not self.is_probing


def leased(health: Health, now: float) -> tuple[Health, bool]:
    """The breaker after a lease was granted at `now`, and whether that lease is the probe."""
    assert health.may_lease(now)
    if health.state == "closed":
        return health, False
    return replace(health, state="half_open", is_probing=True), True


def finished(
    health: Health, verdict: Verdict, *, is_probe: bool, spec: HealthSpec, now: float
) -> Health:
    """The breaker after a leased attempt ended with `verdict`."""
    if health.state == "closed":
        if verdict == "success":
            return Health() if health.failures else health
        if verdict == "failure":
            failures = health.failures + 1
            if failures >= spec.failures:
                return Health(state="open", open_until=now + spec.cooldown_seconds)
            return replace(health, failures=failures)
        return health
    if not is_probe:
        return health
    assert health.state == "half_open", health
    if verdict == "success":
        return Health()
    if verdict == "failure":
        return Health(state="open", open_until=now + spec.cooldown_seconds)
    return replace(health, is_probing=False)
