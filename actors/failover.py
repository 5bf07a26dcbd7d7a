"""Which channels one call leases: its candidates in order, at most three of them (contract §4).

A channel that is full or open is passed over and is not a try. What is done with a lease, and
whether another channel may be tried after a failure, is the call's (`gw/calls/attempts.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.channel import ChannelActor, Denied, Lease
from actors.router import Candidate
from channels.errors import UpstreamError

# Spec, Limits: channels tried per request.
TRIES_MAX = 3


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """A try that gave no response."""

    seq: int
    channel_id: str
    started_at: float  # Unix seconds
    seconds: float
    error: UpstreamError


class FailoverExhausted(Exception):
    """No channel gave a response. `failed` is empty when none could be tried.

    `cooldown_seconds` is how long every one of them stays open; 0 where one of them may be
    had at any moment.
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


class Failover:
    """Leases the candidates of one call, one after another.

    `failed` are the attempts that gave no response, `passed_over` the channels that were not tried,
    with the reason.
    """

    __slots__ = ("_candidates", "_channels", "_cooldowns", "_visited", "failed", "passed_over")

    def __init__(
        self, candidates: Sequence[Candidate], channels: Mapping[str, ChannelActor]
    ) -> None:
        self.failed: list[FailedAttempt] = []
        self.passed_over: dict[str, str] = {}
        self._candidates = deque(candidates)
        self._channels = channels
        self._cooldowns: list[float] = []
        self._visited: set[str] = set()

    def __repr__(self) -> str:
        return f"<Failover {len(self.failed)} failed, {len(self.passed_over)} passed over>"

    async def lease(self) -> tuple[Candidate, Lease]:
        """The next candidate that takes the call, leased; the caller releases the lease.

        Raises FailoverExhausted when there is none, or three have been tried.
        """
        if len(self.failed) < TRIES_MAX:
            while self._candidates:
                candidate = self._candidates.popleft()
                channel_id = candidate.channel_id
                if channel_id in self._visited:  # bound twice, under two upstream names
                    continue
                self._visited.add(channel_id)
                channel = self._channels.get(channel_id)
                if channel is None:  # removed by a reload since the candidates were chosen
                    self.passed_over[channel_id] = "removed"
                    continue
                lease = channel.try_acquire()
                if lease is None:
                    lease = await channel.acquire()
                if not isinstance(lease, Denied):
                    return candidate, lease
                self.passed_over[channel_id] = lease.reason
                self._cooldowns.append(channel.cooldown_seconds)
        raise self.exhausted()

    @property
    def has_next(self) -> bool:
        """Whether another channel is left to try should the present attempt fail."""
        left = {one.channel_id for one in self._candidates} - self._visited
        return len(self.failed) + 1 < TRIES_MAX and any(one in self._channels for one in left)

    def add_failed(
        self, candidate: Candidate, error: UpstreamError, *, started_at: float, seconds: float
    ) -> None:
        """The attempt on this candidate has failed."""
        self.failed.append(
            FailedAttempt(
                seq=len(self.failed) + 1,
                channel_id=candidate.channel_id,
                started_at=started_at,
                seconds=seconds,
                error=error,
            )
        )

    def exhausted(self) -> FailoverExhausted:
        """What is raised when no other channel is to be tried."""
        return FailoverExhausted(
            self.failed, self.passed_over, cooldown_seconds=min(self._cooldowns, default=0.0)
        )
