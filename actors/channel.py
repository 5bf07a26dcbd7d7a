"""The actor of one channel, which alone grants its slots and tracks its health.

A slot is requested and returned in the caller's turn, after the messages that wait, by which a
reload or an operator changes the channel.

A lease is the right to make one attempt. It is released once, in every exit path, with a verdict;
releasing it again has no effect. The router only reads `in_use` and `turn`: the actor decides
when a lease is requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from msgspec import Struct

from actors import circuit_breaker
from actors.actor import Actor
from actors.clock import Clock
from actors.mailbox import ActorStopped
from channels.data_promise import DataDemand
from channels.registry import ChannelSpec
from metrics.prometheus import Metrics


class ChannelLease(Struct, eq=False):
    """The right to make one attempt on one channel, until `release`."""

    _actor: ChannelActor
    spec: ChannelSpec
    is_probe: bool
    _is_released: bool = False

    def __repr__(self) -> str:
        state = "released" if self._is_released else "held"
        return f"<Lease {self.spec.id} {state}{' probe' if self.is_probe else ''}>"

    def release(self, verdict: circuit_breaker.Verdict) -> None:
        """Return the slot and report the verdict of the attempt. Only the first call counts.

        Never raises, because it is called in every exit path of a call.
        """
        if not self._is_released:
            self._is_released = True
            self._actor.release(verdict, self.is_probe)


class Denied(Struct, frozen=True):
    """No lease: all slots are taken, the breaker is open, an operator has withdrawn the channel, or
    it does not promise what the call demands for its data."""

    reason: Literal["full", "open", "withdrawn", "data"]


@dataclass(frozen=True, slots=True)
class Configure:
    """Use new settings; leases granted under the old one stay valid."""

    spec: ChannelSpec


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Grant no lease until `Reopen`; granted leases stay valid."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Grant leases again, with breaker and keys reset."""


@dataclass(frozen=True, slots=True)
class Retire:
    """Remove the channel from the metrics; granted leases are still returned."""


ChannelMessage = Configure | Withdraw | Reopen | Retire


class ChannelActor(Actor[ChannelMessage]):
    """Slots and health of one channel."""

    kind: ClassVar[str] = "channel"

    def __init__(self, spec: ChannelSpec, *, clock: Clock, metrics: Metrics) -> None:
        super().__init__(clock=clock, metrics=metrics)
        self.spec = spec
        self.in_use = 0
        self.health = circuit_breaker.CLOSED
        self.leases_granted = 0
        self._leased_at = 0.0  # the last of them, in monotonic seconds
        self.is_withdrawn = False
        self._configure(spec)
        metrics.channel_state(channel=spec.id, state=self.health.state)

    def __repr__(self) -> str:
        return (
            f"<ChannelActor {self.spec.id} {self.health.state} "
            f"{self.in_use}/{self.spec.max_concurrency} slots>"
        )

    @property
    def cooldown_seconds(self) -> float:
        """How long an open breaker still refuses; 0 in any other state."""
        if self.health.state != "open":
            return 0.0
        return max(0.0, self.health.open_until - self.clock.monotonic())

    @property
    def turn(self) -> tuple[float, int]:
        """Among channels of equal load the least is next: who has waited longest for a lease.

        The end of a rest counts as a lease, so that whoever returns from one is last.
        """
        return max(self._leased_at, self.spec.ring.rests_until), self.leases_granted

    @property
    def may_lease(self) -> bool:
        """Whether a lease would be granted now."""
        is_free = self.in_use < self._limit
        return is_free and self.health.may_lease(self.clock.monotonic())

    def keeps(self, demand: DataDemand | None) -> bool:
        """Whether the channel promises what a call demands for its data."""
        return demand is None or demand.is_kept_by(self.spec.data_promise)

    def acquire(self, demand: DataDemand | None = None) -> ChannelLease | Denied:
        """Request a lease for a call with this demand. Raises ActorStopped."""
        if not self.mailbox.is_free:
            self._catch_up()
        if demand is not None and not self.keeps(demand):
            return Denied("data")
        is_probe = self.health.state != "closed"
        if is_probe and not self.health.may_lease(self.clock.monotonic()):
            return Denied("open")
        if self.in_use >= self._limit:
            return Denied("withdrawn" if self.is_withdrawn else "full")
        if is_probe:
            self._become(circuit_breaker.probed(self.health))
        self.in_use += 1
        self.leases_granted += 1
        self._leased_at = self.clock.monotonic()
        self._slots.value = self.in_use
        return ChannelLease(self, self.spec, is_probe)

    def release(self, verdict: circuit_breaker.Verdict, is_probe: bool) -> None:
        """Take a lease back; done by the lease itself, once."""
        if not self.mailbox.is_free:
            try:
                self._catch_up()
            except ActorStopped:
                return  # the process ends; slots are no longer counted
        assert self.in_use > 0, self
        self.in_use -= 1
        self._slots.value = self.in_use
        if self.health is circuit_breaker.CLOSED and verdict != "failure":
            return
        spec, now = self.spec.health, self.clock.monotonic()
        health = circuit_breaker.finished(
            self.health, verdict, is_probe=is_probe, spec=spec, now=now
        )
        if health is not self.health:
            self._become(health)

    def try_trial(self, demand: DataDemand | None = None) -> ChannelLease | None:
        """Request a trial of the channel; None during a rest. Raises ActorStopped."""
        if not self.mailbox.is_free:
            self._catch_up()
        if self.health.state == "closed" or self.spec.ring.is_aside:
            return None
        now = self.clock.monotonic()
        lease = self.acquire(demand) if self.health.may_try(now) else None
        if not isinstance(lease, ChannelLease):
            return None
        self.health = circuit_breaker.tried(self.health, now, self.spec.health)
        return lease

    def send(self, message: ChannelMessage) -> None:
        """Handle a message now, or in its turn when others wait. Raises ActorStopped."""
        if self.mailbox.is_free:
            self.handle(message)
        else:
            self.tell(message)

    def handle(self, message: ChannelMessage) -> None:
        if isinstance(message, Configure):
            self._configure(message.spec)
        elif isinstance(message, Withdraw):
            self.is_withdrawn, self._limit = True, 0
        elif isinstance(message, Reopen):
            self._reopen()
        else:
            self.metrics.channel_removed(self.spec.id)

    def _catch_up(self) -> None:
        """Handle the messages that wait, before what the caller wants. Raises ActorStopped."""
        self.handle_all(self.mailbox.take_waiting())

    def _configure(self, spec: ChannelSpec) -> None:
        self.spec = spec
        spec.ring.listener = self._on_key_refused
        spec.ring.rest_listener = self._on_key_throttled
        self._limit = 0 if self.is_withdrawn else spec.max_concurrency
        self._slots = self.metrics.channel_slots(channel=spec.id, limit=spec.max_concurrency)
        self._slots.value = self.in_use

    def _reopen(self) -> None:
        self.is_withdrawn, self._limit = False, self.spec.max_concurrency
        for key in self.spec.ring.keys:
            key.confirmed()
        if self.health is not circuit_breaker.CLOSED:
            self._become(circuit_breaker.CLOSED)

    def _become(self, health: circuit_breaker.Health) -> None:
        before, self.health = self.health, health
        if before.state != health.state:
            self.metrics.channel_state(channel=self.spec.id, state=health.state)
            self.log.warning(_MOVED[health.state], channel=self.spec.id, was=before.state)

    def _on_key_throttled(self, number: int, seconds: float) -> None:
        """Count and log a key that begins to rest."""
        self.metrics.channel_key_rests(channel=self.spec.id, key=number)
        self.log.info(
            "channel_key_rests", channel=self.spec.id, key=number, seconds=round(seconds, 3)
        )

    def _on_key_refused(self, number: int, status: int, was_in_use: bool) -> None:
        """Count a refused key, and log it when it is set aside rather than at each later call."""
        self.metrics.channel_key_refused(channel=self.spec.id, key=number, status=status)
        if was_in_use:
            self.log.warning(
                "channel_key_refused",
                channel=self.spec.id,
                key=number,
                status=status,
                aside=self.spec.ring.aside,
                keys=len(self.spec.keys),
            )


_MOVED: Mapping[circuit_breaker.State, str] = {
    "closed": "channel_closed",
    "open": "channel_opened",
    "half_open": "channel_half_opened",
}
