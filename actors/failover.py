"""Which channels one call leases: its candidates in order, at most three attempts (reference 10.2).

A full or open channel is passed over, which is no attempt. A channel whose key was refused and
that has another key is tried once more after all others; one whose key was throttled, at once, and
channels without a key that is left are passed over from then on. The call decides what to do with
a lease, and whether another channel may be tried after a failure (`gw/calls/attempts.py`).

A call may try a channel whose trial is pending before its turn, if a closed channel precedes it
and takes the call when the trial fails. The channel must be one that the call could reach within
its three attempts, in the same protocol. So the call loses nothing: it still tries all it would
have tried without the trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.channel import ChannelActor, ChannelLease, Denied
from actors.routing import Candidate
from channels.errors import CredentialsRefused, Throttled, UpstreamError

# Spec, Limits: channels tried per request.
TRIES_MAX = 3


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that gave no response."""

    seq: int
    channel_id: str
    started_at: float  # Unix seconds
    seconds: float
    error: UpstreamError


class FailoverExhausted(Exception):
    """No channel gave a response. `failed` is empty when none could be tried.

    `cooldown_seconds` is how long every one of them stays open; 0 if any may be available at any
    moment.
    """

    def __init__(
        self,
        failed: Sequence[FailedAttempt],
        passed_over: Mapping[str, str],
        *,
        cooldown_seconds: float = 0.0,
    ) -> None:
        super().__init__(f"{len(failed)} tried, {len(passed_over)} passed over")
        self.failed = failed
        self.passed_over = passed_over
        self.cooldown_seconds = cooldown_seconds


class Failover(Struct, eq=False):
    """Leases the candidates of one call, one after another.

    `failed` are the attempts that gave no response, `passed_over` the channels not tried, with the
    reason. `may_try`: the call may be a trial, so it neither buys a media result nor belongs to a
    conversation named by its client. `is_trial`: the last lease is a trial. `has_hopped`: an
    attempt was throttled, after which one more channel may be tried, and no second one for that.
    """

    _candidates: Sequence[Candidate]
    _channels: Mapping[str, ChannelActor]
    may_try: bool = False
    is_trial: bool = False
    has_hopped: bool = False
    failed: list[FailedAttempt] = []
    passed_over: dict[str, str] = {}
    _index: int = 0  # of the next candidate
    _cooldowns: list[float] = []
    _visited: set[str] = set()

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
        if len(self.failed) < TRIES_MAX:
            for candidate in self._candidates[self._index :]:
                self._index += 1
                channel_id = candidate.channel_id
                if channel_id in self._visited:  # bound twice, under two upstream names
                    continue
                self._visited.add(channel_id)
                channel = self._channels.get(channel_id)
                if channel is None:  # removed by a reload since the candidates were chosen
                    self.passed_over[channel_id] = "removed"
                    continue
                if self.has_hopped and not channel.spec.ring.is_ready:
                    self.passed_over[channel_id] = "resting"
                    continue
                lease = channel.acquire()
                if not isinstance(lease, Denied):
                    return candidate, lease
                self.passed_over[channel_id] = lease.reason
                self._cooldowns.append(channel.cooldown_seconds)
        raise self.exhausted()

    def _trial(self) -> tuple[Candidate, ChannelLease] | None:
        """Lease the candidate that the call tries before its turn; None if no trial is pending."""
        for candidate in self._candidates:
            channel = self._channels.get(candidate.channel_id)
            if channel is not None and channel.health.state != "closed":
                break
        else:
            return None
        before: list[Candidate] = []
        for candidate in self._candidates:
            channel = self._channels.get(candidate.channel_id)
            if channel is None:
                continue
            if before and candidate.protocol == before[0].protocol:
                lease = channel.try_trial()
                if lease is not None:
                    self.is_trial = True
                    self._candidates = left = list(self._candidates)
                    left.remove(candidate)
                    self._visited.add(candidate.channel_id)
                    return candidate, lease
            if channel.may_lease:
                before.append(candidate)
                if len(before) == TRIES_MAX or (
                    len(before) == 1 and channel.health.state != "closed"
                ):
                    break
        return None

    @property
    def has_next(self) -> bool:
        """Whether another channel could be tried after the present attempt."""
        left = {one.channel_id for one in self._candidates[self._index :]} - self._visited
        return len(self.failed) + 1 < TRIES_MAX and any(one in self._channels for one in left)

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
                error=error,
            )
        )
        channel = self._channels.get(candidate.channel_id)
        if isinstance(error, Throttled):
            self.has_hopped = True
            if channel is not None and channel.spec.ring.is_ready:
                self._candidates = [candidate, *self._candidates[self._index :]]
                self._index = 0
                self._visited.discard(candidate.channel_id)
            return
        if channel is None or not isinstance(error, CredentialsRefused):
            return
        if not channel.spec.ring.is_aside:
            self._candidates = [*self._candidates, candidate]
            self._visited.discard(candidate.channel_id)

    def exhausted(self) -> FailoverExhausted:
        """Return the error for when no channel is left to try.

        A refused key as the last failure goes to the client and is no failed attempt, as is a 429.
        """
        failed = tuple(self.failed)
        if failed and isinstance(failed[-1].error, CredentialsRefused | Throttled):
            self.failed.pop()
        return FailoverExhausted(
            failed, self.passed_over, cooldown_seconds=min(self._cooldowns, default=0.0)
        )
