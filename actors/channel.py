"""The actor of one channel: it alone grants its slots and keeps its health.

A lease is the right to make one attempt. It is given back once, on every way out, with a verdict;
giving it back twice is harmless. What the router looks at (`load`, `leases_granted`) is read-only
there: the actor's word at lease time decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from msgspec import Struct

from actors.actor import Actor
from actors.clock import Clock
from actors.health import Health, State, Verdict, finished, leased
from actors.mailbox import ActorStopped, Envelope
from channels.registry import ChannelSpec
from metrics.prometheus import Metrics


class Lease:
    """The right to make one attempt on one channel, until `release`."""

    __slots__ = ("_actor", "_released", "is_probe", "spec")

    def __init__(self, actor: ChannelActor, spec: ChannelSpec, *, is_probe: bool) -> None:
        self._actor = actor
        self._released = False
        self.spec = spec
        self.is_probe = is_probe

    def __repr__(self) -> str:
        state = "released" if self._released else "held"
        return f"<Lease {self.spec.id} {state}{' probe' if self.is_probe else ''}>"

    def release(self, verdict: Verdict) -> None:
        """Give the slot back and say how the attempt went. The first word counts.

        Never raises: it stands in the way out of every call.
        """
        if not self._released:
            self._released = True
            with suppress(ActorStopped):  # the process ends; nobody counts slots any more
                self._actor.tell(Release(verdict=verdict, is_probe=self.is_probe))


class Acquire(Struct, frozen=True):
    """Ask for a lease. Answered with Lease or Denied."""


class Denied(Struct, frozen=True):
    """No lease: every slot is taken, or the breaker is open."""

    reason: Literal["full", "open"]


class Release(Struct, frozen=True, kw_only=True):
    """A lease comes back."""

    verdict: Verdict
    is_probe: bool


@dataclass(frozen=True, slots=True)
class Configure:
    """Take a new specification; leases out under the old one go on."""

    spec: ChannelSpec


@dataclass(frozen=True, slots=True)
class Retire:
    """Leave the metrics; leases that are out still come back."""


ChannelMessage = Acquire | Release | Configure | Retire


class ChannelActor(Actor[ChannelMessage]):
    """Slots and health of one channel."""

    kind: ClassVar[str] = "channel"

    def __init__(self, spec: ChannelSpec, *, clock: Clock, metrics: Metrics) -> None:
        super().__init__(clock=clock, metrics=metrics)
        self.spec = spec
        self.in_use = 0
        self._asking = 0
        self.health = Health()
        self.leases_granted = 0
        self._is_retired = False
        self._publish()
        metrics.channel_state(channel=spec.id, state=self.health.state)

    def __repr__(self) -> str:
        return (
            f"<ChannelActor {self.spec.id} {self.health.state} "
            f"{self.in_use}/{self.spec.max_concurrency} slots>"
        )

    @property
    def load(self) -> int:
        """Slots that are leased or asked for.

        The asked-for ones count at once: calls whose holds were granted in one batch choose their
        channels in one turn of the loop, before this actor has had its own.
        """
        return self.in_use + self._asking

    async def acquire(self) -> Lease | Denied:
        """Ask for a lease. A caller cancelled meanwhile leaves none behind."""
        reply: asyncio.Future[Lease | Denied] = asyncio.get_running_loop().create_future()
        self.mailbox.put(Acquire(), reply)
        self._asking += 1
        try:
            return await reply
        except asyncio.CancelledError:
            # Answered and cancelled in the same turn of the loop: the lease never reached anyone.
            if reply.done() and not reply.cancelled() and isinstance(reply.result(), Lease):
                cast(Lease, reply.result()).release("abandoned")
            raise

    def handle(self, envelope: Envelope[ChannelMessage]) -> None:
        message = envelope.message
        if isinstance(message, Acquire):
            self._asking -= 1
            self._acquire(envelope)
        elif isinstance(message, Release):
            self._release(message)
        elif isinstance(message, Configure):
            self.spec = message.spec
            self._is_retired = False
        else:
            self._is_retired = True
            self.metrics.channel_removed(self.spec.id)
        if not self._is_retired:
            self._publish()

    def _acquire(self, envelope: Envelope[ChannelMessage]) -> None:
        now = self.clock.monotonic()
        if not self.health.may_lease(now):
            envelope.answer(Denied("open"))
            return
        if self.in_use >= self.spec.max_concurrency:
            envelope.answer(Denied("full"))
            return
        health, is_probe = leased(self.health, now)
        self.in_use += 1
        self.leases_granted += 1
        self._become(health)
        if not envelope.answer(Lease(self, self.spec, is_probe=is_probe)):
            # The asker left while waiting: what nobody accepted is free again.
            self._release(Release(verdict="abandoned", is_probe=is_probe))

    def _release(self, message: Release) -> None:
        assert self.in_use > 0, self
        self.in_use -= 1
        self._become(
            finished(
                self.health,
                message.verdict,
                is_probe=message.is_probe,
                spec=self.spec.health,
                now=self.clock.monotonic(),
            )
        )

    def _become(self, health: Health) -> None:
        before, self.health = self.health, health
        if before.state != health.state:
            self.metrics.channel_state(channel=self.spec.id, state=health.state)
            self.log.warning(_MOVED[health.state], channel=self.spec.id, was=before.state)

    def _publish(self) -> None:
        self.metrics.channel_slots(
            channel=self.spec.id, in_use=self.in_use, limit=self.spec.max_concurrency
        )


_MOVED: Mapping[State, str] = {
    "closed": "channel_closed",
    "open": "channel_opened",
    "half_open": "channel_half_opened",
}
