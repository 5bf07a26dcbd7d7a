"""A film that is read through us goes the way of its channel: key, transport, refusals."""

from __future__ import annotations

from typing import Any, cast

from actors.jobs.ending import JobContent
from actors.jobs.job import Job
from channels.http.interfaces import UpstreamRequest
from channels.http.transport import Transport
from tests.support.specs import make_channel


class Place:
    """What of a job is looked at."""

    channel_id = "one"
    upstream_id = "video_1"
    wire = "videos"


class Answering:
    """A wire that keeps the request and answers 402."""

    status = 402

    def __init__(self) -> None:
        self.requests: list[UpstreamRequest] = []

    async def open(self, request: UpstreamRequest) -> Any:
        self.requests.append(request)
        return self


async def test_film_is_asked_for_in_the_way_of_its_channel() -> None:
    transport = Transport(ca_file="/ca.pem")
    spec = make_channel(
        "one", protocols=frozenset({"videos"}), wire={"videos": "openai"}, transport=transport
    )
    wire = Answering()
    content = JobContent(wire=cast(Any, wire), channels=lambda: {"one": spec}, seconds=5.0)
    await content.open(cast(Job, Place()), (("Range", "bytes=0-"),))
    (request,) = wire.requests
    assert request.transport is transport
    assert request.headers == (
        ("Authorization", "Bearer api-key-of-one"),
        ("Range", "bytes=0-"),
    )
    assert spec.ring.aside == 1
