"""One poll and one cancellation over a real socket, whatever the upstream does."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from actors.clock import SystemClock
from actors.jobs.state_machine import Gone, TimedOut, Unreachable
from actors.jobs.upstreams import JobUpstreams
from channels.http.client import HttpClient
from channels.media.replies import NotFound, Polled, Trouble, Unusable
from channels.registry import ChannelSpec
from tests.support.specs import make_channel
from tests.unit.simulator.client import KEY
from tests.unit.simulator.hands import Hands, hands

BODY_BYTES_MAX = 300_000
EXCHANGED_FILM = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": 4}


@dataclass(frozen=True)
class At:
    """Where a job is made."""

    upstream_id: str
    channel_id: str = "film"
    upstream_protocol: str = "videos"
    kind: Any = "video"


@asynccontextmanager
async def upstreams(
    seconds: float = 5.0, **changes: Any
) -> AsyncIterator[tuple[JobUpstreams, Hands]]:
    """Jobs of a channel that the simulator answers."""
    http = HttpClient(connect_seconds=5.0)
    try:
        async with hands() as h:
            spec = make_channel("film", api_key=KEY, protocols=frozenset({"videos"}))
            spec = replace(spec, **{"base_url": h.simulator.base_url, **changes})
            channels: dict[str, ChannelSpec] = {"film": spec}
            yield (
                JobUpstreams(
                    http=http,
                    channels=lambda: channels,
                    seconds=seconds,
                    body_bytes_max=BODY_BYTES_MAX,
                    clock=SystemClock(),
                ),
                h,
            )
    finally:
        await http.close()


async def test_poll_tells_how_a_task_is_and_a_cancellation_ends_it() -> None:
    async with upstreams() as (jobs, h):
        task = (await h.submit("/v1/videos/generations", EXCHANGED_FILM, task_seconds=100))["id"]
        seen = await jobs.poll(At(task))
        assert isinstance(seen, Polled)
        assert seen.state in ("queued", "running")
        assert await jobs.cancel(At(task))
        seen = await jobs.poll(At(task))
        assert isinstance(seen, Polled)
        assert seen.state == "cancelled"


async def test_cancellation_that_the_upstream_refuses_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with upstreams() as (jobs, _):
        assert not await jobs.cancel(At("vid_none"))
    logged = [one for one in caplog.records if "task_not_cancelled_upstream" in vars(one).values()]
    assert len(logged) == 1


async def test_poll_of_what_is_not_there() -> None:
    async with upstreams() as (jobs, _):
        assert isinstance(await jobs.poll(At("vid_none")), NotFound)
        assert isinstance(await jobs.poll(At("vid_1", channel_id="gone")), Gone)
        assert not await jobs.cancel(At("vid_1", channel_id="gone"))


async def test_upstream_that_does_not_answer_is_given_up_in_time() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with upstreams(0.05, base_url=url) as (jobs, _):
        assert await jobs.poll(At("vid_1")) == TimedOut()
        assert not await jobs.cancel(At("vid_1"))
    server.close()


async def test_upstream_that_cannot_be_reached_or_fails_says_nothing() -> None:
    async with upstreams(base_url="http://127.0.0.1:1") as (jobs, _):
        assert isinstance(await jobs.poll(At("vid_1")), Unreachable)
        assert not await jobs.cancel(At("vid_1"))
    async with upstreams() as (jobs, h):
        task = (
            await h.submit(
                "/v1/videos/generations", EXCHANGED_FILM, task_seconds=9, poll={"status": 503}
            )
        )["id"]
        assert isinstance(await jobs.poll(At(task)), Trouble)


async def test_answer_is_read_up_to_the_limit_of_bodies_and_cannot_be_used_beyond() -> None:
    sizes = iter((BODY_BYTES_MAX, BODY_BYTES_MAX + 1))

    async def response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = next(sizes)
        body = b'{"status": "running", "log": "%b"}'
        body = body.replace(b"%b", b"x" * (size - len(body) + 2))
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size
        writer.write(head + body)
        writer.close()

    async with await asyncio.start_server(response, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with upstreams(base_url=url) as (jobs, _):
            assert isinstance(await jobs.poll(At("vid_1")), Polled)
            assert await jobs.poll(At("vid_1")) == Unusable(reason="too large")
