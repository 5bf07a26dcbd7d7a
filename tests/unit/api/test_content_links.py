"""Links to films that the gateway serves itself."""

from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from actors.jobs.content import JobContent
from actors.jobs.job import Job
from channels.http.interfaces import UpstreamRequest
from channels.http.transport import Transport
from gw.api.videos.content_links import BASE_URL, ContentLinks
from tests.support.specs import make_channel
from tests.unit.jobs.test_settlement import NOW, opened

LINKS = ContentLinks(b"k" * 32, public_url="")
JOB = replace(opened().job, request={BASE_URL: "http://gw.example:8080"})


def test_link_is_good_for_its_film_until_it_expires() -> None:
    parts = urlsplit(LINKS.link(JOB, NOW + 10.9))
    assert parts.netloc == "gw.example:8080"
    assert parts.path == f"/v1/videos/generations/{JOB.id}/content"
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    assert LINKS.is_good(JOB.id, **query, now=NOW + 9.0)
    assert not LINKS.is_good(JOB.id, **query, now=NOW + 10.0)
    assert not LINKS.is_good("vid_2", **query, now=NOW)
    assert not LINKS.is_good(JOB.id, **{**query, "expires": "9999999999"}, now=NOW)
    assert not ContentLinks(b"o" * 32, public_url="").is_good(JOB.id, **query, now=NOW)


def test_texts_that_are_no_link_of_ours_are_not_good() -> None:
    for expires, signature in (("", ""), ("x", "é"), ("1", "\ud800"), ("١", "0" * 64)):
        assert not LINKS.is_good(JOB.id, expires, signature, now=NOW)


def test_public_address_goes_before_the_one_that_a_client_used() -> None:
    links = ContentLinks(b"k" * 32, public_url="https://films.example")
    assert links.link(JOB, NOW).startswith("https://films.example/v1/videos/")


class Place:
    """What of a job is looked at."""

    channel_id = "one"
    upstream_id = "video_1"
    upstream_protocol = "videos"


class Answering:
    """A client that keeps the request and answers 402."""

    status = 402

    def __init__(self) -> None:
        self.requests: list[UpstreamRequest] = []

    async def open(self, request: UpstreamRequest) -> Any:
        self.requests.append(request)
        return self


async def test_film_is_requested_in_the_way_of_its_channel() -> None:
    transport = Transport(ca_file="/ca.pem")
    spec = make_channel(
        "one", protocols=frozenset({"videos"}), wire={"videos": "openai"}, transport=transport
    )
    http = Answering()
    content = JobContent(http=cast(Any, http), channels=lambda: {"one": spec}, seconds=5.0)
    await content.open(cast(Job, Place()), (("Range", "bytes=0-"),))
    (request,) = http.requests
    assert request.transport is transport
    assert request.headers == (("Authorization", "Bearer api-key-of-one"), ("Range", "bytes=0-"))
    assert spec.ring.aside == 1
