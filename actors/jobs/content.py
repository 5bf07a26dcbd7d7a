"""Opens videos that upstreams only return with the channel's key.

Clients read them with a signed link of the gateway (reference 7.4).
As with polls, no slot is taken and the channel's health is not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from actors.jobs.job import Job
from channels.http.interfaces import UpstreamClient, UpstreamResponse
from channels.media.dialects import DIALECTS
from channels.media.exchanges import addressed
from channels.registry import ChannelSpec


class ContentUnavailable(Exception):
    """The video cannot be read from any channel."""


class JobContent:
    """Opens videos. `seconds` is the timeout until an upstream's response begins."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        seconds: float,
    ) -> None:
        self._http = http
        self._channels = channels
        self._seconds = seconds

    async def open(self, job: Job, headers: Sequence[tuple[str, str]]) -> UpstreamResponse:
        """Request a job's video with these headers; the caller closes the response.

        Raises ContentUnavailable, UpstreamError and TimeoutError.
        """
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None or job.upstream_protocol is None:
            raise ContentUnavailable
        request = DIALECTS[channel.dialect_of(job.upstream_protocol)].content(job.upstream_id)
        if request is None:  # the channel's dialect was changed
            raise ContentUnavailable
        asked = addressed(channel, request)
        asked = structs.replace(asked, headers=(*asked.headers, *headers))
        async with asyncio.timeout(self._seconds):
            response = await self._http.open(asked)
        asked.took_status(response.status)
        return response
