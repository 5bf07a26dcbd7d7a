"""Which channels one call leases: its candidates in order, at most three attempts (reference 10.2).

A full or open channel is passed over, which is no attempt. A channel whose key was refused and
that has another key is tried once more after all others; one whose key was throttled, at once, and
channels without a key that is left are passed over from then on. So is, always, a channel that
does not promise what the call demands for its data. The call decides what to do with a lease, and
whether another channel may be tried after a failure (`gw/calls/attempts.py`).

A call may try a channel whose trial is pending before its turn, if a closed channel precedes it
and takes the call when the trial fails. The channel must be one that the call could reach within
its three attempts, in the same protocol. So the call loses nothing: it still tries all it would
have tried without the trial.

A chain's candidates are those of its models, one model after another. A channel that serves two of
them may be tried for each. Of the three attempts one is kept for each later model, so that the
channels of one model do not use up what the next could be tried by; those passed by for that come
last. A model that cannot be told all of a request is skipped (`skip`), which is no attempt, unless
none can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.channel import ChannelActor, ChannelLease, Denied
from actors.routing import Candidate
from channels.data_promise import DataDemand
from channels.errors import CredentialsRefused, Throttled, UpstreamError

TRIES_MAX = 3


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that gave no response."""

    seq: int
    channel_id: str
    started_at: float  # Unix seconds
    seconds: float
    error: UpstreamError
    step: str = ""  # the model of a chain that it was for


class FailoverExhausted(Exception):
    """No channel gave a response. `failed` is empty when none could be tried.

    `cooldown_seconds` is how long every one of them stays open; 0 if any may be available at any
    moment. `demand` is the call's.
    """

    def __init__(
        self,
        failed: Sequence[FailedAttempt],
        passed_over: Mapping[str, str],
        *,
        cooldown_seconds: float = 0.0,
        demand: DataDemand | None = None,
    ) -> None:
        super().__init__(f"{len(failed)} tried, {len(passed_over)} passed over")
        self.failed = failed
        self.passed_over = passed_over
        self.cooldown_seconds = cooldown_seconds
        self.demand = demand


class Failover(Struct, eq=False):
    """Leases the candidates of one call, one after another.

    `failed` are the attempts that gave no response, `passed_over` the channels not tried, with the
    reason. `may_try`: the call may be a trial, so it neither buys a media result nor belongs to a
    conversation named by its client. `is_trial`: the last lease is a trial. `has_hopped`: an
    attempt was throttled, after which one more channel may be tried, and no second one for that.
    `takes_losses`: no model of a chain can be told all of the request, so one is told the rest.
    """

    _candidates: Sequence[Candidate]
    _channels: Mapping[str, ChannelActor]
    _demand: DataDemand | None
    may_try: bool = False
    is_trial: bool = False
    has_hopped: bool = False
    takes_losses: bool = False
    failed: list[FailedAttempt] = []
    passed_over: dict[str, str] = {}
    _index: int = 0  # of the next candidate
    _cooldowns: list[float] = []
    _visited: set[str | tuple[str, str]] = set()
    _skipped: list[Candidate] = []

    def __repr__(self) -> str:
        return f"<Failover {len(self.failed)} failed, {len(self.passed_over)} passed over>"

    def lease(self) -> tuple[Candidate, ChannelLease]:
        """Lease the next candidate that grants it; the caller releases the lease.

        Raises FailoverExhausted when none is left or three have been tried, and ActorStopped.
        """
        self.is_trial = False
        if self.may_try:
            self.may_try = False
            if len(self._candidates) > 1 and (trial := self._trial()) is not None:
                return trial
        leased = self._next()
        if leased is None and self._skipped and not (self.failed or self._may_come_back):
            self.takes_losses = True
            self._candidates, self._skipped, self._index = self._skipped, [], 0
            self._visited.clear()
            leased = self._next()
        if leased is None:
            raise self.exhausted()
        return leased

    def _next(self) -> tuple[Candidate, ChannelLease] | None:
        """Lease the next candidate that grants it; None when none is left or three were tried."""
        if len(self.failed) >= TRIES_MAX:
            return None
        if self.failed and self.failed[-1].step:
            self._keep_tries()
        for candidate in self._candidates[self._index :]:
            self._index += 1
            channel_id, place = candidate.channel_id, _place(candidate)
            if place in self._visited:  # bound twice, under two upstream names
                continue
            self._visited.add(place)
            channel = self._channels.get(channel_id)
            if channel is None:  # removed by a reload since the candidates were chosen
                self.passed_over[channel_id] = "removed"
                continue
            if self.has_hopped and not channel.spec.ring.is_ready:
                self.passed_over[channel_id] = "resting"
                continue
            lease = channel.acquire(self._demand)
            if not isinstance(lease, Denied):
                return candidate, lease
            self.passed_over[channel_id] = lease.reason
            if lease.reason != "data":
                self._cooldowns.append(channel.cooldown_seconds)
        return None

    @property
    def _may_come_back(self) -> bool:
        """Whether a channel was passed over that a later call may be granted."""
        return any(reason != "data" for reason in self.passed_over.values())

    def _keep_tries(self) -> None:
        """Put a chain's next model first where no more attempts are left than models follow."""
        tried, left = self.failed[-1].step, self._candidates[self._index :]
        others = [one for one in left if one.step != tried]
        if TRIES_MAX - len(self.failed) <= len({one.step for one in others}):
            self._candidates = [*others, *(one for one in left if one.step == tried)]
            self._index = 0

    def skip(self, candidate: Candidate) -> None:
        """The leased candidate, of a chain, was not tried: its model would lose something."""
        self._skipped.append(candidate)

    def _trial(self) -> tuple[Candidate, ChannelLease] | None:
        """Lease the candidate that the call tries before its turn; None if no trial is pending."""
        for candidate in self._candidates:
            channel = self._kept(candidate.channel_id)
            if channel is not None and channel.health.state != "closed":
                break
        else:
            return None
        before: list[Candidate] = []
        for candidate in self._candidates:
            channel = self._kept(candidate.channel_id)
            if channel is None:
                continue
            if before and _kind(candidate) == _kind(before[0]):
                lease = channel.try_trial(self._demand)
                if lease is not None:
                    self.is_trial = True
                    self._candidates = left = list(self._candidates)
                    left.remove(candidate)
                    self._visited.add(_place(candidate))
                    return candidate, lease
            if channel.may_lease:
                before.append(candidate)
                if len(before) == TRIES_MAX or (
                    len(before) == 1 and channel.health.state != "closed"
                ):
                    break
        return None

    def _kept(self, channel_id: str) -> ChannelActor | None:
        """Return a channel that is there and keeps the call's demand."""
        channel = self._channels.get(channel_id)
        return channel if channel is not None and channel.keeps(self._demand) else None

    @property
    def has_next(self) -> bool:
        """Whether another channel could be tried after the present attempt."""
        return len(self.failed) + 1 < TRIES_MAX and any(
            self._kept(one.channel_id) and _place(one) not in self._visited
            for one in self._candidates[self._index :]
        )

    def add_failed(
        self, candidate: Candidate, error: UpstreamError, *, started_at: float, seconds: float
    ) -> None:
        """Add a failed attempt on this candidate.

        If its key was refused and it has another, it is tried again after all others; if it was
        throttled, before them.
        """
        self.failed.append(
            FailedAttempt(
                seq=len(self.failed) + 1,
                channel_id=candidate.channel_id,
                started_at=started_at,
                seconds=seconds,
                error=error.with_traceback(None),  # whose frames hold this list: a cycle
                step=candidate.step,
            )
        )
        channel = self._channels.get(candidate.channel_id)
        if isinstance(error, Throttled):
            self.has_hopped = True
            if channel is not None and channel.spec.ring.is_ready:
                self._candidates = [candidate, *self._candidates[self._index :]]
                self._index = 0
                self._visited.discard(_place(candidate))
            return
        if channel is None or not isinstance(error, CredentialsRefused):
            return
        if not channel.spec.ring.is_aside:
            self._candidates = [*self._candidates, candidate]
            self._visited.discard(_place(candidate))

    def exhausted(self) -> FailoverExhausted:
        """Return the error for when no channel is left to try.

        A refused key as the last failure goes to the client and is no failed attempt, as is a 429.
        """
        failed = tuple(self.failed)
        if failed and isinstance(failed[-1].error, CredentialsRefused | Throttled):
            self.failed.pop()
        return FailoverExhausted(
            failed,
            self.passed_over,
            cooldown_seconds=min(self._cooldowns, default=0.0),
            demand=self._demand,
        )


def _place(candidate: Candidate) -> str | tuple[str, str]:
    """Return what is tried once: a channel, or a channel for a model of a chain."""
    if not candidate.step:
        return candidate.channel_id
    return candidate.step, candidate.channel_id


def _kind(candidate: Candidate) -> tuple[str, str]:
    return candidate.protocol, candidate.step
