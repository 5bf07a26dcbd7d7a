"""One call, at most three channels: try candidates until one answers (contract §4).

A failed connection, an upstream 5xx or an answer that cannot be used moves on to the next
candidate; a refusal (4xx) is an answer; a time-out, and whatever else is final, ends the call. A
channel that is full or open is passed over and is not a try.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from actors.channel import ChannelActor, Denied, Lease
from actors.clock import Clock
from actors.router import Candidate
from channels.errors import UpstreamError

# Spec, Limits: channels tried per request.
TRIES_MAX = 3

T = TypeVar("T")


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """A try that gave no answer."""

    seq: int
    channel_id: str
    started_at: float  # Unix seconds
    seconds: float
    error: UpstreamError


class NoAnswer(Exception):
    """No channel gave an answer. `failed` is empty when none could be tried.

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


class Answered(Struct, Generic[T], frozen=True, kw_only=True):
    """The first answer, the lease it came by, and what had failed before."""

    answer: T
    lease: Lease
    candidate: Candidate
    failed: Sequence[FailedAttempt]
    passed_over: Mapping[str, str]
    started_at: float
    started_monotonic: float


async def first_answer(
    candidates: Sequence[Candidate],
    channels: Mapping[str, ChannelActor],
    attempt: Callable[[Candidate, Lease], Awaitable[T]],
    *,
    clock: Clock,
    on_failed: Callable[[FailedAttempt], None] = lambda _attempt: None,
) -> Answered[T]:
    """Lease and try candidates in order; the caller releases the lease that comes back.

    `attempt` raises UpstreamError for what may be tried elsewhere. Raises NoAnswer. A cancelled
    call gives its lease back and says nothing of the channel's health; what had failed before, it
    knows by `on_failed`.
    """
    failed: list[FailedAttempt] = []
    passed_over: dict[str, str] = {}
    cooldowns: list[float] = []
    visited: set[str] = set()
    for candidate in candidates:
        if len(failed) == TRIES_MAX:
            break
        if candidate.channel_id in visited:  # bound twice, under two upstream names
            continue
        visited.add(candidate.channel_id)
        channel = channels.get(candidate.channel_id)
        if channel is None:  # removed by a reload since the candidates were chosen
            passed_over[candidate.channel_id] = "removed"
            continue
        lease = channel.try_acquire()
        if lease is None:
            lease = await channel.acquire()
        if isinstance(lease, Denied):
            passed_over[candidate.channel_id] = lease.reason
            cooldowns.append(channel.cooldown_seconds)
            continue
        started_at, started = clock.now(), clock.monotonic()
        try:
            answer = await attempt(candidate, lease)
        except UpstreamError as error:
            lease.release("failure")
            failed.append(
                FailedAttempt(
                    seq=len(failed) + 1,
                    channel_id=candidate.channel_id,
                    started_at=started_at,
                    seconds=clock.monotonic() - started,
                    error=error,
                )
            )
            on_failed(failed[-1])
            if error.is_final:
                break
        except BaseException:
            lease.release("abandoned")
            raise
        else:
            return Answered(
                answer=answer,
                lease=lease,
                candidate=candidate,
                failed=failed,
                passed_over=passed_over,
                started_at=started_at,
                started_monotonic=started,
            )
    raise NoAnswer(failed, passed_over, cooldown_seconds=min(cooldowns, default=0.0))
