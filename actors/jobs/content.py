"""The films that their upstreams give to the channel's key alone: opened here, read by the client
that has a signed link of the gateway's (contract for media §7, `openai`).

As with polls, no slot is taken and the channel's health is not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from actors.jobs.job import Job
from channels.http.interfaces import UpstreamResponse, Wire
from channels.media.dialects import DIALECTS
from channels.media.send import addressed
from channels.registry import ChannelSpec


class ContentUnavailable(Exception):
    """There is no channel that the film could be read from."""


class JobContent:
    """Opens films. `seconds` is how long an upstream may take to begin."""

    def __init__(
        self, *, wire: Wire, channels: Callable[[], Mapping[str, ChannelSpec]], seconds: float
    ) -> None:
        self._wire = wire
        self._channels = channels
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"<JobContent {self._wire!r}>"

    async def open(self, job: Job, headers: Sequence[tuple[str, str]]) -> UpstreamResponse:
        """Request a job's film with these headers; the caller closes the response.

        Raises ContentUnavailable, UpstreamError and TimeoutError.
        """
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None or job.wire is None:
            raise ContentUnavailable
        request = DIALECTS[channel.dialect_of(job.wire)].content(job.upstream_id)
        if request is None:  # the channel has another dialect by now
            raise ContentUnavailable
        asked = addressed(channel, request)
        asked = structs.replace(asked, headers=(*asked.headers, *headers))
        async with asyncio.timeout(self._seconds):
            response = await self._wire.open(asked)
        asked.took_status(response.status)
        return response
