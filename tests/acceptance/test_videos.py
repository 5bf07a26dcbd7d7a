"""`/v1/videos/generations` on real processes: films are asked for, made, polled, paid, read.

What holds for media of every kind is in `test_media.py`.
"""

import io
import json
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import pytest

from loadtests.rig.client import Client, fetch
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance import films
from tests.acceptance.films import (
    PORTRAIT,
    RECORDING,
    SECOND,
    SOURCE,
    TEXT,
    VIDEOS,
    ended,
    image,
    polled,
    posted,
    submit,
)
from tests.support.rows import each

EXPIRED_URL = "https://media.example/expired"


def expire_link(h: Deployment, task_id: str) -> int:
    """Let the link of a task be another one, over for a minute; return when it ended (Unix time).

    The upstream's own stays as it is, so that it is seen who was asked again.
    """
    ended_at = int(time.time()) - 60
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute(
            "UPDATE jobs SET result = (result::jsonb || jsonb_build_object("
            "'url', %s::text, 'expires_at', %s::bigint))::json WHERE id = %s",
            (EXPIRED_URL, ended_at, task_id),
        )
        assert cursor.rowcount == 1
    return ended_at


SETTINGS = films.SETTINGS
EXPECTED_LOG = ("film_cut",)
BAD = "invalid_request_error"


def test_film_is_made_paid_by_its_real_seconds_and_plays(h: Deployment, tenant: Tenant) -> None:
    # A hundredth of a minute is progress; it runs until it is told to finish.
    h.upstream.fault("one", task_seconds=60, task_states=["running"], real_seconds=3.2)
    begun = submit(tenant.client, portrait_auth=True, style="noir")
    assert list(begun.json) == ["id", "status", "model", "created_at"]
    assert (begun.json["status"], begun.json["model"]) == ("queued", "film")
    assert abs(begun.json["created_at"] - time.time()) < 60
    task_id = begun.json["id"]
    assert task_id.startswith("vid_")
    assert h.held_nano_usd(tenant) == 4 * SECOND
    (request,) = posted(h)
    assert request["headers"]["idempotency-key"] == task_id
    body = json.loads(request["body"])
    assert (body["model"], body["style"], body["duration"]) == ("vendor-film", "noir", 4)
    assert "portrait_auth" not in body

    def progresses() -> bool:
        shown = polled(tenant.client, task_id)
        return bool(shown["status"] == "running" and 0 < shown["progress"] <= 100)

    until(progresses, what="progress")
    h.upstream.finish()
    done = ended(tenant.client, task_id)
    names = ["id", "status", "model", "created_at", "video_url", "expires_at", "duration"]
    assert list(done) == names
    assert (done["status"], done["duration"]) == ("succeeded", 3.2)
    assert done["expires_at"] > time.time() + 6 * 86_400
    with av.open(io.BytesIO(fetch(done["video_url"]).body)) as opened:
        assert opened.streams.video[0].frames > 0
    row = h.row(begun.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "video", 3)
    assert (row["cost_nano_usd"], row["task_id"]) == (320_000_000, task_id)
    assert row["result_urls"] == [done["video_url"]]
    assert h.spent_nano_usd(tenant) == 320_000_000
    assert tenant.client.get(VIDEOS).json == {"data": [done]}
    detail = tenant.client.get(f"/v1/logs/{row['id']}").json
    assert detail["kind"] == "video"
    facts = {pair["k"]: pair["v"] for pair in detail["gateway"]}
    assert (facts["seconds"], facts["portrait_auth"]) == ("3.2", "true")
    assert facts["channel_1"].startswith("videos, native")


MATERIALS = [{"type": "image", "file_url": PORTRAIT}]
MOTION = {"model": "dh-motion", "content": [image()], "source_video_url": SOURCE}
CLIP = {"model": "clip-mixcut", "style_id": "oralmixcutting-bold", "audio_url": RECORDING}
NEWS = {"model": "clip-news", "style_id": "newsmixcutting-plain", "title": "News"}
LIPS = {"model": "dh-lipsync-pro", "source_video_url": SOURCE, "audio_url": RECORDING}
# What is asked for, and for how many seconds of 0.1 USD it is held.
FILMS: list[tuple[dict[str, Any], int]] = [
    ({"duration": None}, 12),
    ({"model": "film-other", "resolution": "1080p"}, 3 * 4),
    (LIPS, 4),
    ({**MOTION, "resolution": "max"}, 3 * 4),
    ({"model": "clip-realman", "style_id": "realman-bold", "source_video_url": SOURCE}, 300),
    ({**CLIP, "materials": MATERIALS, "duration": 400}, 400),
    ({**NEWS, "materials": MATERIALS, "duration": 900}, 300),
]


@each("request, held", FILMS)
def test_every_kind_of_film_is_held_for_and_made(
    h: Deployment, request: dict[str, Any], held: int
) -> None:
    tenant = h.tenant(nano_usd=100 * 10**9)
    h.upstream.fault("one", task_seconds=0.2)
    begun = submit(tenant.client, **request)
    assert begun.status == 200, begun
    done = ended(tenant.client, begun.json["id"])
    assert done["status"] == "succeeded", done
    row = h.row(begun.trace)
    assert (row["unit_type"], row["detail"]["hold"]) == ("video", held * SECOND)
    assert row["cost_nano_usd"] == 10**9 * 100 - h.balance_nano_usd(tenant)


INVALID = (400, BAD, "invalid_request")
UNKNOWN_HUMAN = (404, BAD, "model_not_found")
NO_CHANNEL = (503, "server_error", "no_channel_available")
REFUSED: list[tuple[dict[str, Any], tuple[int, str, str]]] = [
    ({"content": [image()]}, INVALID),
    ({"content": [TEXT, image("http://10.0.0.1/x.png")]}, INVALID),
    ({"model": "nobody"}, (400, BAD, "model_not_found")),
    ({"model": "dh-nobody"}, UNKNOWN_HUMAN),
    ({"model": "clip-nobody"}, UNKNOWN_HUMAN),
    ({"model": "dh-of-another-kind"}, NO_CHANNEL),
    ({"model": "sim-model"}, NO_CHANNEL),
    ({"model": "film-lite"}, INVALID),
    ({**LIPS, "duration": None}, INVALID),
    ({"model": "film-faces", "content": [TEXT, image("data:image/png;base64,AAAA")]}, INVALID),
    ({"duration": 3600}, (402, "insufficient_quota", "quota_exceeded")),
]


@each("request, refusal", REFUSED)
def test_what_is_refused_holds_nothing_and_asks_nobody(
    h: Deployment, tenant: Tenant, request: dict[str, Any], refusal: tuple[int, str, str]
) -> None:
    reply = submit(tenant.client, **request)
    assert reply.refusal == refusal
    assert reply.headers["x-should-retry"] == "false"
    assert posted(h) == []
    assert tenant.client.get(VIDEOS).json == {"data": []}
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
    assert h.spent_nano_usd(tenant) == 0


FILM = {"model": "film", "content": [TEXT], "duration": 4}


def test_client_that_leaves_stops_nothing_and_counts_until_the_submit_is_over(
    h: Deployment,
) -> None:
    tenant = h.tenant(concurrency=1)
    h.upstream.fault("one", pause="headers", task_seconds=0.1, real_seconds=4)
    key = {"Idempotency-Key": "k"}
    with tenant.client.begin("POST", VIDEOS, FILM, headers=key):
        h.upstream.wait(paused=1)  # a poll of an earlier film would be active too
    assert submit(tenant.client).refusal[0] == 429
    h.upstream.resume()
    h.upstream.heal("one")
    until(lambda: tenant.client.get(VIDEOS).status == 200, what="the end of the submit")
    (task,) = tenant.client.get(VIDEOS).json["data"]
    again = submit(tenant.client, key)
    assert (again.json["id"], again.headers["idempotency-replayed"]) == (task["id"], "true")
    assert len(posted(h)) == 1
    until(lambda: h.spent_nano_usd(tenant) == 4 * SECOND, what="the settlement")


@pytest.mark.long
def test_stopping_gateway_waits_for_submits_that_were_left_alone(
    database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, is_funded=False, **SETTINGS) as h:
        tenant = h.tenant()
        h.upstream.fault("one", pause="headers", task_seconds=3600, real_seconds=4)
        with tenant.client.begin("POST", VIDEOS, FILM):
            h.upstream.wait(paused=1)
        h.gateway.popen.send_signal(signal.SIGTERM)
        until(lambda: Admin(h.gateway.admin_url).get("/readyz").status == 503, what="the drain")
        h.upstream.resume()
        assert h.gateway.wait() == 0
        (job,) = h.query("SELECT id, state::text FROM jobs")
        assert job["state"] == "queued"
        h.gateway.close()
        h.start()
        h.upstream.finish()
        client = Client(h.gateway.url, tenant.key)
        assert ended(client, job["id"])["status"] == "succeeded"
        assert h.spent_nano_usd(tenant) == 4 * SECOND


STUDIO: dict[str, Any] = {"model": "film-studio", "resolution": "720p", "ratio": "16:9"}
WEEK = 7 * 86_400


def polled_again(h: Deployment) -> int:
    """How often upstreams were polled."""
    paths = [one["path"] for one in h.upstream.requests() if one["method"] == "GET"]
    return sum(path.startswith("/v1/videos/") for path in paths)


def test_link_that_has_expired_is_requested_again_once_a_minute(
    h: Deployment, tenant: Tenant
) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    task_id = submit(tenant.client).json["id"]
    first = ended(tenant.client, task_id)
    expire_link(h, task_id)
    polls = polled_again(h)
    assert polled(tenant.client, task_id) == first  # the upstream has named its link again
    assert polled_again(h) == polls + 1
    ended_at = expire_link(h, task_id)
    shown = {**first, "video_url": EXPIRED_URL, "expires_at": ended_at}
    assert tenant.client.get(VIDEOS).json == {"data": [shown]}
    assert polled_again(h) == polls + 1


def made(h: Deployment, tenant: Tenant, **sim: Any) -> str:
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


def test_film_without_a_link_is_read_by_ours_whole_and_in_part(
    h: Deployment, tenant: Tenant
) -> None:
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
    h: Deployment, tenant: Tenant
) -> None:
    path = made(h, tenant)
    place, _, query = path.partition("?")
    expires, signature = (pair.partition("=")[2] for pair in query.split("&"))
    other = f"{VIDEOS}/vid_{'0' * 32}/content"
    for bad in (
        place,
        f"{other}?{query}",
        f"{place}?expires={int(expires) + 1}&signature={signature}",
        f"{place}?expires=%F0%9D%9F%99&signature=%00",
    ):
        refused = Client(h.gateway.url, None).get(bad)
        assert refused.refusal == (403, "permission_error", "permission_denied"), bad


def test_film_that_is_cut_is_not_taken_for_whole(h: Deployment, tenant: Tenant) -> None:
    path = made(h, tenant, file_bytes=1_000_000)
    h.upstream.fault("studio", file={"cut_after_bytes": 100_000})
    cut: Response = Client(h.gateway.url, None).get(path)
    assert cut.is_broken
    assert len(cut.body) < 1_000_000


def test_film_that_cannot_be_read_is_an_error(h: Deployment, tenant: Tenant) -> None:
    path = made(h, tenant)
    anybody = Client(h.gateway.url, None)
    h.upstream.fault("studio", file={"status": 404})
    assert anybody.get(path).refusal == (404, "invalid_request_error", "not_found")
    h.upstream.fault("studio", file={"status": 500})
    assert anybody.get(path).refusal == (502, "api_error", "upstream_error")
    h.upstream.fault("studio", file={"refuse": True})
    assert anybody.get(path).refusal == (502, "api_error", "upstream_unreachable")
