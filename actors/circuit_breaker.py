"""The circuit breaker as a transition table; the time is passed in.

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

A channel behind others in priority is leased only when these fail, so its breaker would stay open
while they work. Its probe is then a trial: one call in each rest tries it before its turn
(`failover.py`). A rest is one cooldown after the first trial, and doubles after each further
trial that does not succeed.

Results of calls that began before the channel opened change nothing while it is open or
half_open: only the probe decides (reference 10.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from channels.registry import HealthSpec

# Doublings of a rest: a channel that keeps failing is tried by one call in 32 cooldowns.
TRIAL_DOUBLINGS_MAX = 5

State = Literal["closed", "open", "half_open"]
# What a finished attempt shows about its channel; abandoned: nothing.
Verdict = Literal["success", "failure", "abandoned"]


@dataclass(frozen=True, slots=True)
class Health:
    """The breaker of one channel. Instants are in monotonic seconds.

    `trials` counts the trials since it opened, none of which has succeeded.
    """

    state: State = "closed"
    failures: int = 0
    open_until: float = 0.0
    is_probing: bool = False
    trials: int = 0
    trial_at: float = 0.0  # no trial earlier

    def may_lease(self, now: float) -> bool:
        """Whether a lease at `now` would be granted, apart from slots."""
        if self.state == "open":
            return now >= self.open_until
        return not self.is_probing

    def may_try(self, now: float) -> bool:
        """Whether a lease at `now` would be a trial whose rest is over."""
        return self.state != "closed" and now >= self.trial_at and self.may_lease(now)


CLOSED = Health()


def probed(health: Health) -> Health:
    """Return the breaker after a lease that it grants while not closed, which is the probe."""
    assert health.state != "closed", health
    return replace(health, state="half_open", is_probing=True)


def tried(health: Health, now: float, spec: HealthSpec) -> Health:
    """Return the breaker after that lease was a trial: the next one follows after a rest."""
    assert health.is_probing
    rest = spec.cooldown_seconds * 2 ** min(health.trials, TRIAL_DOUBLINGS_MAX)
    return replace(health, trials=health.trials + 1, trial_at=now + rest)


def finished(
    health: Health, verdict: Verdict, *, is_probe: bool, spec: HealthSpec, now: float
) -> Health:
    """Return the breaker after a leased attempt ended with `verdict`."""
    if health.state == "closed":
        if verdict == "success":
            return CLOSED
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
        return CLOSED
    rested = replace(health, is_probing=False)
    if verdict == "failure":
        return replace(rested, state="open", open_until=now + spec.cooldown_seconds)
    return rested
