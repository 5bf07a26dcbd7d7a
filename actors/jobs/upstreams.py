"""One poll or one cancellation of a job at its upstream.

Independent of calls: it takes no slot of the channel, does not count for its health, and is made
even if its circuit is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from actors.clock import Clock
from actors.jobs import state_machine
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamClient
from channels.media import exchanges, model
from channels.media.dialects import DIALECTS
from channels.registry import ChannelSpec
from metrics.logs import EventLog

R = TypeVar("R")


class UpstreamJob(Protocol):
    """The data that identifies a job at its upstream."""

    @property
    def kind(self) -> model.TaskKind: ...

    @property
    def channel_id(self) -> str | None: ...

    @property
    def upstream_protocol(self) -> str | None: ...

    @property
    def upstream_id(self) -> str | None: ...


class JobUpstreams:
    """Polls and cancels jobs at their upstreams. `seconds` is the timeout of either, with all
    requests it needs; `body_bytes_max` bounds a response's body."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        seconds: float,
        body_bytes_max: int,
        clock: Clock,
    ) -> None:
        self._http = http
        self._channels = channels
        self._seconds = seconds
        self._body_bytes_max = body_bytes_max
        self._clock = clock
        self._log = EventLog("actors.jobs")

    def channel_ids(self) -> list[str]:
        """Return the ids of the configured channels."""
        return list(self._channels())

    async def poll(self, job: UpstreamJob) -> state_machine.Observation:
        """Request the state of a job. Raises only when cancelled."""
        found = self._find(job)
        if found is None:
            return state_machine.Gone()
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.upstream_protocol or "")]
        try:
            async with asyncio.timeout(self._seconds):
                return await self._perform(channel, dialect.poll(job.kind, upstream_id))
        except TimeoutError:
            return state_machine.TimedOut()
        except UpstreamError as error:
            return state_machine.Unreachable(reason=f"{error} {error.detail}".strip())

    async def cancel(self, job: UpstreamJob) -> bool:
        """Cancel a job, if its upstream supports that; return whether it was cancelled."""
        found = self._find(job)
        if found is None:
            return False
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.upstream_protocol or "")]
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

    async def _perform(self, channel: ChannelSpec, exchange: model.Exchange[R]) -> R:
        return await exchanges.perform_with(
            channel, exchange, self._http, self._clock, body_bytes_max=self._body_bytes_max
        )
