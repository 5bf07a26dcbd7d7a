"""One poll or one cancellation of a job at its upstream.

Not a part of any call: it takes no slot of the channel, reports nothing on its health, and is made
while its circuit is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from actors.clock import Clock
from actors.jobs.states import Gone, Observation, TimedOut, Unreachable
from channels.errors import UpstreamError
from channels.http.interfaces import Wire
from channels.media.dialects import DIALECTS
from channels.media.model import Exchange, MediaRequest, MediaResponse, TaskKind
from channels.media.perform import perform
from channels.media.send import send
from channels.registry import ChannelSpec
from metrics.logs import EventLog

R = TypeVar("R")


class UpstreamJob(Protocol):
    """What finds a job at its upstream."""

    @property
    def kind(self) -> TaskKind: ...

    @property
    def channel_id(self) -> str | None: ...

    @property
    def wire(self) -> str | None: ...

    @property
    def upstream_id(self) -> str | None: ...


class JobUpstreams:
    """Polls and cancels jobs at their upstreams. `seconds` is the timeout of one of these, however
    many requests it needs."""

    def __init__(
        self,
        *,
        wire: Wire,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        seconds: float,
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._channels = channels
        self._seconds = seconds
        self._clock = clock
        self._log = EventLog("actors.jobs")

    def __repr__(self) -> str:
        return f"<JobUpstreams {self._wire!r}>"

    def channel_ids(self) -> list[str]:
        """The channels that the configuration has."""
        return list(self._channels())

    async def poll(self, job: UpstreamJob) -> Observation:
        """Ask for the state of a job. Never raises, but when it is cancelled."""
        found = self._find(job)
        if found is None:
            return Gone()
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.wire or "")]
        try:
            async with asyncio.timeout(self._seconds):
                return await self._perform(channel, dialect.poll(job.kind, upstream_id))
        except TimeoutError:
            return TimedOut()
        except UpstreamError as error:
            return Unreachable(reason=f"{error} {error.detail}".strip())

    async def cancel(self, job: UpstreamJob) -> bool:
        """Cancel a job, if its upstream has a way to; whether the upstream did so."""
        found = self._find(job)
        if found is None:
            return False
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.wire or "")]
        exchange = dialect.cancel(job.kind, upstream_id)
        if exchange is None:
            return False
        try:
            async with asyncio.timeout(self._seconds):
                if await self._perform(channel, exchange):
                    return True
            reason = "refused"
        except (TimeoutError, UpstreamError) as error:
            reason = repr(error)
        self._log.info("task_not_cancelled_upstream", channel=channel.id, error=reason)
        return False

    def _find(self, job: UpstreamJob) -> tuple[ChannelSpec, str] | None:
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None:
            return None
        return channel, job.upstream_id

    async def _perform(self, channel: ChannelSpec, exchange: Exchange[R]) -> R:
        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            return await send(self._wire, channel, request, response_bytes_max, now=self._clock.now)

        return await perform(exchange, sent, self._clock.sleep)
