"""Upstreams of jobs that say what a test tells them to, and remember what they were asked."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection

from actors.jobs.state_machine import Observation
from actors.jobs.upstreams import UpstreamJob
from tests.support.jobs import CHANNEL, polled


class ScriptedUpstreams:
    """Says of each task what its script says, the last word again and again; else it is queued."""

    def __init__(self, *channels: str) -> None:
        self.channels: Collection[str] = channels or (CHANNEL,)
        self.scripts: dict[str, deque[Observation]] = defaultdict(deque)
        self.requested: list[str] = []
        self.cancelled: list[str] = []
        self.gate: asyncio.Event | None = None  # polls wait for it
        self.waiting = 0

    def say(self, upstream_id: str, *observations: Observation) -> None:
        """What the next polls of a task bring."""
        self.scripts[upstream_id].extend(observations)

    def channel_ids(self) -> Collection[str]:
        return self.channels

    async def poll(self, job: UpstreamJob) -> Observation:
        assert job.upstream_id is not None
        self.requested.append(job.upstream_id)
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
            self.waiting -= 1
        script = self.scripts[job.upstream_id]
        if not script:
            return polled("queued")
        return script.popleft() if len(script) > 1 else script[0]

    async def cancel(self, job: UpstreamJob) -> bool:
        assert job.upstream_id is not None
        self.cancelled.append(job.upstream_id)
        return True
