"""Links to films: renewed after they have expired, and our own where the upstream has none."""

from __future__ import annotations

import io
import time
from typing import Any
from urllib.parse import urlsplit

import av
import pytest

from tests.acceptance import films
from tests.acceptance.films import VIDEOS, ended, polled, submit
from tests.acceptance.links import EXPIRED_URL, expire_link
from tests.support.client import Call, Client, Reply
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = films.SETTINGS
EXPECTED_LOG = ("film_cut",)
STUDIO: dict[str, Any] = {"model": "film-studio", "resolution": "720p", "ratio": "16:9"}
WEEK = 7 * 86_400


def asked_again(h: House) -> int:
    """How often upstreams were polled."""
    paths = [one["path"] for one in h.upstream.requests() if one["method"] == "GET"]
    return sum(path.startswith("/v1/videos/") for path in paths)


def test_link_that_has_expired_is_asked_for_again_once_a_minute(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    task_id = submit(tenant.client).json["id"]
    first = ended(tenant.client, task_id)
    expire_link(h, task_id)
    polls = asked_again(h)
    assert polled(tenant.client, task_id) == first  # the upstream has named its link again
    assert asked_again(h) == polls + 1
    ended_at = expire_link(h, task_id)
    shown = {**first, "video_url": EXPIRED_URL, "expires_at": ended_at}
    assert tenant.client.get(VIDEOS).json == {"data": [shown]}
    assert asked_again(h) == polls + 1


def test_upstream_that_does_not_answer_leaves_the_old_link(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    task_id = submit(tenant.client).json["id"]
    first = ended(tenant.client, task_id)
    ended_at = expire_link(h, task_id)
    h.upstream.fault("one", poll={"hang": "headers"})
    shown = {**first, "video_url": EXPIRED_URL, "expires_at": ended_at}
    assert polled(tenant.client, task_id) == shown
    h.upstream.reset()


def made(h: House, tenant: Tenant, **sim: Any) -> str:
    """The path of a film that the gateway serves itself."""
    h.upstream.fault("studio", task_seconds=0.1, **sim)
    begun = submit(tenant.client, **STUDIO)
    assert begun.status == 200, begun
    done = ended(tenant.client, begun.json["id"])
    assert done["expires_at"] > time.time() + WEEK - 600
    url = urlsplit(done["video_url"])
    assert f"{url.scheme}://{url.netloc}" == h.gateway.url
    assert url.path == f"{VIDEOS}/{begun.json['id']}/content"
    assert h.row(begun.trace)["result_urls"] == [done["video_url"]]
    return f"{url.path}?{url.query}"


def test_film_without_a_link_is_read_by_ours_whole_and_in_part(h: House, tenant: Tenant) -> None:
    path = made(h, tenant)
    anybody = Client(h.gateway.url, None)
    whole = anybody.get(path)
    assert (whole.status, whole.headers["content-type"]) == (200, "video/mp4")
    assert whole.headers["content-length"] == str(len(whole.body))
    with av.open(io.BytesIO(whole.body)) as film:
        assert film.streams.video[0].frames > 0
    part = anybody.get(path, Range="bytes=10-19")
    assert (part.status, part.body) == (206, whole.body[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(whole.body)}"
    beyond = anybody.get(path, Range="bytes=99999999-")
    assert beyond.refusal == (416, "invalid_request_error", "invalid_request")
    head = anybody.send("HEAD", path, None)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert h.upstream.last_request()["headers"]["authorization"] == "Bearer key-of-studio"


def test_link_that_we_have_not_signed_is_refused_whatever_it_names(
    h: House, tenant: Tenant
) -> None:
    path = made(h, tenant)
    place, _, query = path.partition("?")
    expires, signature = (pair.partition("=")[2] for pair in query.split("&"))
    other = f"{VIDEOS}/vid_{'0' * 32}/content"
    for bad in (
        place,
        f"{other}?{query}",
        f"{place}?expires={int(expires) + 1}&signature={signature}",
        f"{place}?expires={expires}&signature={'0' * 64}",
        f"{place}?expires=%F0%9D%9F%99&signature=%00",
        f"{place}?expires={'9' * 400}&signature={signature}",
    ):
        refused = Client(h.gateway.url, None).get(bad)
        assert refused.refusal == (403, "permission_error", "permission_denied"), bad


def test_slow_reader_slows_the_upstream_and_may_leave(h: House, tenant: Tenant) -> None:
    size = 300_000_000
    path = made(h, tenant, file_bytes=size)
    with Call(h.gateway.url, "GET", path, {}, None, receive_buffer_bytes=4096) as call:
        assert call.begun().status == 200
        assert call.read_some(1000)
        h.upstream.wait(channel="studio", active=1)
    h.upstream.wait(channel="studio", active=0, cancelled_by_client=1)


def test_film_that_is_cut_is_not_taken_for_whole(h: House, tenant: Tenant) -> None:
    path = made(h, tenant, file_bytes=1_000_000)
    h.upstream.fault("studio", file={"cut_after_bytes": 100_000})
    cut: Reply = Client(h.gateway.url, None).get(path)
    assert cut.is_broken
    assert len(cut.body) < 1_000_000


def test_film_that_cannot_be_read_is_an_error(h: House, tenant: Tenant) -> None:
    path = made(h, tenant)
    anybody = Client(h.gateway.url, None)
    h.upstream.fault("studio", file={"status": 404})
    assert anybody.get(path).refusal == (404, "invalid_request_error", "not_found")
    h.upstream.fault("studio", file={"status": 500})
    assert anybody.get(path).refusal == (502, "api_error", "upstream_error")
    h.upstream.fault("studio", file={"refuse": True})
    assert anybody.get(path).refusal == (502, "api_error", "upstream_unreachable")


def test_link_of_ark_ends_when_it_says(h: House, tenant: Tenant) -> None:
    h.upstream.fault("ark", task_seconds=0.1)
    begun = submit(tenant.client, model="film-ark")
    done = ended(tenant.client, begun.json["id"])
    assert 0 < done["expires_at"] - time.time() <= 86_400
