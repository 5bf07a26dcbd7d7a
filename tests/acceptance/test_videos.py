"""`/v1/videos/generations` on real processes: films are asked for, made, polled, listed, paid."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import urlopen

import av
import pytest
from openai import NotFoundError, OpenAI

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
    spent,
    submit,
)
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until

SETTINGS = films.SETTINGS
BAD = "invalid_request_error"


def test_film_is_made_paid_by_its_real_seconds_and_plays(h: House, tenant: Tenant) -> None:
    # A hundredth of a minute is progress; it runs until it is told to finish.
    h.upstream.fault("one", task_seconds=60, task_states=["running"], real_seconds=3.2)
    begun = submit(tenant.client, portrait_auth=True, style="noir")
    assert list(begun.json) == ["id", "status", "model", "created_at"]
    assert (begun.json["status"], begun.json["model"]) == ("queued", "film")
    assert abs(begun.json["created_at"] - time.time()) < 60
    task_id = begun.json["id"]
    assert task_id.startswith("vid_")
    assert h.held_nano_usd(tenant) == 4 * SECOND
    (asked,) = posted(h)
    assert asked["headers"]["idempotency-key"] == task_id
    body = json.loads(asked["body"])
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
    with urlopen(done["video_url"]) as film, av.open(film) as opened:
        assert opened.streams.video[0].frames > 0
    row = h.row(begun.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "video", 3)
    assert (row["cost_nano_usd"], row["task_id"]) == (320_000_000, task_id)
    assert row["result_urls"] == [done["video_url"]]
    assert spent(h, tenant) == 320_000_000
    assert tenant.client.get(VIDEOS).json == {"data": [done]}
    detail = tenant.client.get(f"/v1/logs/{row['id']}").json
    assert detail["kind"] == "video"
    facts = {pair["k"]: pair["v"] for pair in detail["gateway"]}
    assert (facts["seconds"], facts["portrait_auth"]) == ("3.2", "true")
    assert facts["channel_1"].startswith("videos, native")


def test_task_is_in_flight_until_it_ends(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    begun = submit(tenant.client)
    (shown,) = [
        one
        for one in tenant.client.get("/v1/logs?include=in_flight").json["in_flight"]
        if one["task_id"] == begun.json["id"]
    ]
    assert shown["request_id"] == begun.trace
    assert shown["model"] == "film"
    assert h.gw("tasks", "cancel", begun.json["id"])["refunded_usd"] == "0.4"
    cancelled = polled(tenant.client, begun.json["id"])
    assert cancelled["status"] == "cancelled"
    assert cancelled["error"]["code"] == "task_cancelled"
    assert h.row(begun.trace)["status"] == "interrupted"
    assert spent(h, tenant) == 0


def test_failure_is_told_and_refunded(h: House, tenant: Tenant) -> None:
    h.upstream.fault(
        "one", task_seconds=0.2, task_error={"code": "blocked", "message": "Not this."}
    )
    begun = submit(tenant.client)
    done = ended(tenant.client, begun.json["id"])
    assert done["status"] == "failed"
    assert done["error"] == {"code": "blocked", "message": "Not this."}
    row = h.row(begun.trace)
    assert (row["status"], row["error_code"], row["unit_count"]) == ("error", "blocked", 0)
    assert spent(h, tenant) == 0


@pytest.mark.parametrize("model_id", ["film", "film-ark", "film-studio"])
def test_large_image_may_stand_in_the_request(h: House, tenant: Tenant, model_id: str) -> None:
    link = "data:image/png;base64," + "iVBORw0K" * 400_000
    headers = {"Idempotency-Key": model_id}
    begun = submit(tenant.client, headers, model=model_id, content=[TEXT, image(link)])
    assert begun.status == 200, begun
    (asked,) = posted(h)
    body = json.loads(asked["body"])
    sent = body.get("input_reference") or body["content"][1]["image_url"]
    assert link in (sent, *sent.values())
    again = submit(tenant.client, headers, model=model_id, content=[TEXT, image(link)])
    assert (again.json, len(posted(h))) == (begun.json, 1)
    assert ended(tenant.client, begun.json["id"])["status"] == "succeeded"


FILMS: dict[str, tuple[dict[str, Any], int]] = {
    "twelve seconds where none are said": ({"duration": None}, 12 * SECOND),
    "by resolution": ({"model": "film-other", "resolution": "1080p"}, 12 * SECOND),
    "lips": (
        {"model": "dh-lipsync-pro", "source_video_url": SOURCE, "audio_url": RECORDING},
        4 * SECOND,
    ),
    "motion": (
        {"model": "dh-motion", "content": [image()], "source_video_url": SOURCE},
        4 * SECOND,
    ),
    "motion, better": (
        {
            "model": "dh-motion",
            "content": [image()],
            "source_video_url": SOURCE,
            "resolution": "max",
        },
        12 * SECOND,
    ),
    "clip": (
        {"model": "clip-realman", "style_id": "realman-bold", "source_video_url": SOURCE},
        300 * SECOND,
    ),
    "longer clip": (
        {
            "model": "clip-mixcut",
            "style_id": "oralmixcutting-bold",
            "audio_url": RECORDING,
            "materials": [{"type": "image", "file_url": PORTRAIT}],
            "duration": 400,
        },
        400 * SECOND,
    ),
    "news": (
        {
            "model": "clip-news",
            "style_id": "newsmixcutting-plain",
            "title": "News",
            "materials": [{"type": "image", "file_url": PORTRAIT}],
            "duration": 900,
        },
        300 * SECOND,
    ),
}


@pytest.mark.parametrize(("asked", "held"), FILMS.values(), ids=FILMS.keys())
def test_every_kind_of_film_is_held_for_and_made(
    h: House, asked: dict[str, Any], held: int
) -> None:
    tenant = h.tenant(nano_usd=100 * 10**9)
    h.upstream.fault("one", task_seconds=0.2)
    begun = submit(tenant.client, **asked)
    assert begun.status == 200, begun
    done = ended(tenant.client, begun.json["id"])
    assert done["status"] == "succeeded", done
    row = h.row(begun.trace)
    assert (row["unit_type"], row["detail"]["hold"]) == ("video", held)
    assert row["cost_nano_usd"] == 10**9 * 100 - h.balance_nano_usd(tenant)


def test_avatar_that_speaks_goes_where_it_was_made(h: House, tenant: Tenant) -> None:
    h.upstream.fault(task_seconds=0.2)
    h.upstream.fault("one", task_seconds=0.2)
    made = tenant.client.send("POST", "/v1/videos/avatars", {"name": "A", "source_url": PORTRAIT})
    assert made.status == 200, made
    avatar_id = made.json["id"]
    asked = {"model": "dh-avatar", "avatar": avatar_id, "audio_url": RECORDING}
    until(
        lambda: tenant.client.get(f"/v1/videos/avatars/{avatar_id}").json["status"] == "ready",
        what="the avatar",
    )
    begun = submit(tenant.client, **asked)
    assert begun.status == 200, begun
    sent = json.loads(posted(h)[-1]["body"])
    assert sent["avatar"] != avatar_id
    assert ended(tenant.client, begun.json["id"])["status"] == "succeeded"
    other = h.tenant()
    assert submit(other.client, **asked).refusal == (400, BAD, "invalid_request")
    assert submit(tenant.client, **{**asked, "avatar": "nobody"}).status == 400


REFUSED: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "no text": ({"content": [image()]}, (400, BAD, "invalid_request")),
    "private link": (
        {"content": [TEXT, image("http://10.0.0.1/x.png")]},
        (400, BAD, "invalid_request"),
    ),
    "no such model": ({"model": "nobody"}, (400, BAD, "model_not_found")),
    "no such human": ({"model": "dh-nobody"}, (404, BAD, "model_not_found")),
    "no such clip": ({"model": "clip-nobody"}, (404, BAD, "model_not_found")),
    "human of no kind we make": (
        {"model": "dh-of-another-kind"},
        (503, "server_error", "no_channel_available"),
    ),
    "another endpoint's": ({"model": "sim-model"}, (503, "server_error", "no_channel_available")),
    "lite without resolution": ({"model": "film-lite"}, (400, BAD, "invalid_request")),
    "human without duration": (
        {
            "model": "dh-lipsync-pro",
            "duration": None,
            "source_video_url": SOURCE,
            "audio_url": RECORDING,
        },
        (400, BAD, "invalid_request"),
    ),
    "embedded face": (
        {"model": "film-faces", "content": [TEXT, image("data:image/png;base64,AAAA")]},
        (400, BAD, "invalid_request"),
    ),
    "too dear": ({"duration": 3600}, (402, "insufficient_quota", "quota_exceeded")),
}


@pytest.mark.parametrize(("asked", "refusal"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_holds_nothing_and_asks_nobody(
    h: House, tenant: Tenant, asked: dict[str, Any], refusal: tuple[int, str, str]
) -> None:
    reply = submit(tenant.client, **asked)
    assert reply.refusal == refusal
    assert reply.headers["x-should-retry"] == "false"
    assert posted(h) == []
    assert tenant.client.get(VIDEOS).json == {"data": []}
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
    assert spent(h, tenant) == 0


def test_key_that_may_not_use_a_model_is_told_by_its_kind(h: House) -> None:
    tenant = h.tenant(allowed_models=("sim-model",))
    assert submit(tenant.client).refusal == (400, BAD, "model_not_allowed")
    motion = {"content": [image()], "source_video_url": SOURCE}
    refused = submit(tenant.client, None, model="dh-motion", **motion)
    assert refused.refusal == (403, BAD, "model_not_allowed")


def test_agents_may_not_ask_poll_or_list(h: House) -> None:
    agent = h.tenant(kind="agent").client
    for reply in (submit(agent), agent.get(VIDEOS), agent.get(f"{VIDEOS}/vid_{'0' * 32}")):
        assert reply.refusal == (403, "permission_error", "permission_denied")


def test_lists_are_the_accounts_own_filtered_and_paged(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    ids = [submit(tenant.client, duration=1).json["id"] for _ in range(3)]
    shown = tenant.client.get(VIDEOS).json["data"]
    assert [one["id"] for one in shown] == ids[::-1]
    page = tenant.client.get(f"{VIDEOS}?limit=1&before={ids[2]}").json["data"]
    assert [one["id"] for one in page] == [ids[1]]
    assert tenant.client.get(f"{VIDEOS}?status=succeeded").json == {"data": []}
    assert len(tenant.client.get(f"{VIDEOS}?status=queued,running").json["data"]) == 3
    assert len(tenant.client.get(f"{VIDEOS}?status=all&limit=500").json["data"]) == 3
    for query in ("status=done", "limit=0", "limit=x", "before=mus_1"):
        assert tenant.client.get(f"{VIDEOS}?{query}").refusal == (400, BAD, "invalid_request")
    other = h.tenant().client
    assert other.get(VIDEOS).json == {"data": []}
    assert other.get(f"{VIDEOS}/{ids[0]}").refusal == (404, BAD, "not_found")
    assert other.get(f"{VIDEOS}?before={ids[0]}").json == {"data": []}


def test_polls_and_lists_are_free_at_a_balance_of_nothing_and_count(h: House) -> None:
    tenant = h.tenant(nano_usd=4 * SECOND, rpm=4)
    h.upstream.fault("one", task_seconds=0.1, real_seconds=4)
    task_id = submit(tenant.client).json["id"]
    until(lambda: h.balance_nano_usd(tenant) == 0, what="the settlement")
    assert polled(tenant.client, task_id)["status"] == "succeeded"
    assert tenant.client.get(VIDEOS).status == 200
    assert submit(tenant.client).refusal == (402, "insufficient_quota", "quota_exceeded")
    limited = tenant.client.get(VIDEOS)
    assert limited.refusal == (429, "rate_limit_error", "rate_limit_exceeded")


def test_key_replays_the_answer_of_the_submit_whatever_became_of_it(
    h: House, tenant: Tenant
) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    key = {"Idempotency-Key": "once"}
    first = submit(tenant.client, key)
    ended(tenant.client, first.json["id"])
    again = submit(tenant.client, key)
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    assert again.trace == first.trace
    assert submit(tenant.client, key, duration=5).refusal[2] == "idempotency_key_reuse"
    assert len(posted(h)) == 1


def test_official_library_asks_by_its_client(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        body = {"model": "film", "content": [TEXT], "duration": 4}
        begun: Any = client.post("/videos/generations", cast_to=object, body=body)
        ended(tenant.client, begun["id"])
        done: Any = client.get(f"/videos/generations/{begun['id']}", cast_to=object)
        assert done["status"] == "succeeded"
        with pytest.warns(DeprecationWarning, match="Sora"), pytest.raises(NotFoundError):
            client.videos.create(model="sora-2", prompt="a boat", seconds="4")
