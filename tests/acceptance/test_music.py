"""`/v1/music/generations` on real processes: songs are asked for, made, polled, listed, paid."""

from __future__ import annotations

from typing import Any
from urllib.request import urlopen

import av
import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import MUSIC, SONG, compose, ended, spent_nano_usd
from tests.support.client import NANO_PER_USD
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"


def test_songs_are_made_paid_for_and_play(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    begun = compose(tenant.client, lyrics="La la", title="Boat", tags="slow", prompt="unused")
    assert list(begun.json) == ["id", "status", "model", "created_at"]
    assert (begun.json["status"], begun.json["model"]) == ("queued", "song")
    task_id = begun.json["id"]
    assert h.held_nano_usd(tenant) == SONG
    polled = tenant.client.get(f"{MUSIC}/{task_id}").json
    assert (polled["status"], list(polled)) == ("processing", list(begun.json))
    sent = next(one for one in h.upstream.requests() if one["method"] == "POST")
    assert '"lyrics"' in sent["body"]
    assert '"prompt"' not in sent["body"]
    h.upstream.finish()
    done = ended(tenant.client, MUSIC, task_id, "processing")
    assert done["status"] == "succeeded"
    names = ["clip_id", "title", "duration_sec", "audio_url", "image_url", "lyrics"]
    assert [list(track) for track in done["tracks"]] == [names] * 2
    with urlopen(done["tracks"][0]["audio_url"]) as song, av.open(song) as recording:
        assert recording.streams.audio[0].codec_context.sample_rate > 0
    row = h.row(begun.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "music", 1)
    assert (row["cost_nano_usd"], row["task_id"]) == (SONG, task_id)
    assert row["result_urls"] == [track["audio_url"] for track in done["tracks"]]
    assert spent_nano_usd(h, tenant) == SONG
    assert tenant.client.get(MUSIC).json == {"data": [done]}


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": ""},
        {"prompt": "x" * 201},
        {"prompt": None, "lyrics": "x" * 3001},
        {"prompt": None},
        {"instrumental": "yes"},
        {"title": 5},
    ],
)
def test_bad_field_is_refused_before_anything_is_held(
    h: House, tenant: Tenant, asked: dict[str, Any]
) -> None:
    assert compose(tenant.client, **asked).refusal == (400, BAD, "invalid_request")
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.get(MUSIC).json == {"data": []}


def test_failure_is_told_and_refunded(h: House, tenant: Tenant) -> None:
    h.upstream.fault(
        "one", task_seconds=0.3, task_error={"code": "copyright", "message": "Too like another."}
    )
    begun = compose(tenant.client)
    done = ended(tenant.client, MUSIC, begun.json["id"], "processing")
    assert done["status"] == "failed"
    assert done["error"] == {"code": "copyright", "message": "Too like another."}
    row = h.row(begun.trace)
    assert (row["status"], row["error_code"], row["unit_count"]) == ("error", "copyright", 0)
    assert spent_nano_usd(h, tenant) == 0


@pytest.mark.parametrize(
    ("fault", "told", "asked"),
    [
        ({"status": 422}, (422, BAD, "invalid_request"), [1, 0]),
        ({"status": 500}, (500, "api_error", "upstream_error"), [1, 1]),
        ({"status": 504}, (504, "api_error", "upstream_timeout"), [1, 0]),
        ({"body": {}}, (502, "api_error", "upstream_error"), [1, 0]),
    ],
    ids=["refused", "both fail", "504", "no id"],
)
def test_failed_submit_is_refunded_at_once(
    h: House, tenant: Tenant, fault: dict[str, Any], told: tuple[int, str, str], asked: list[int]
) -> None:
    h.upstream.fault("one", **fault)
    h.upstream.fault("two", **fault)
    assert compose(tenant.client).refusal == told
    assert h.upstream.requested("one", "two") == asked
    assert tenant.client.get(MUSIC).json == {"data": []}
    assert spent_nano_usd(h, tenant) == 0


def test_lists_are_filtered_limited_and_paged(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.2)
    first = compose(tenant.client).json["id"]
    ended(tenant.client, MUSIC, first, "processing")
    h.upstream.fault("one", task_seconds=1000)
    open_ones = [compose(tenant.client).json["id"] for _ in range(3)]

    def listed(query: str) -> list[str]:
        return [task["id"] for task in tenant.client.get(f"{MUSIC}?{query}").json["data"]]

    newest_first = [*reversed(open_ones), first]
    assert listed("") == listed("status=all&limit=999") == listed("status=") == newest_first
    assert listed("status=processing") == newest_first[:3]
    assert listed("status=succeeded,failed") == [first]
    assert listed("limit=2") == newest_first[:2]
    assert listed(f"limit=2&before={newest_first[1]}") == newest_first[2:]
    for bad in ("status=queued", "limit=0", "limit=x", "before=vid_1"):
        assert tenant.client.get(f"{MUSIC}?{bad}").refusal == (400, BAD, "invalid_request")
    stranger = h.tenant(nano_usd=0)
    assert stranger.client.get(MUSIC).json == {"data": []}
    for task in (first, "mus_" + "0" * 32, "nothing"):
        assert stranger.client.get(f"{MUSIC}/{task}").refusal == (404, BAD, "not_found")
    in_flight = tenant.client.get("/v1/logs?include=in_flight").json["in_flight"]
    assert {item["task_id"] for item in in_flight} == set(open_ones)
    for task in open_ones:
        h.gw("tasks", "cancel", task)
    assert tenant.client.get(f"{MUSIC}/{open_ones[0]}").json["error"]["code"] == "task_cancelled"
    assert listed("status=cancelled") == newest_first[:3]
    assert spent_nano_usd(h, tenant) == SONG


def test_polls_are_free_and_fenced(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.2)
    spender = h.tenant(nano_usd=SONG)
    task = compose(spender.client).json["id"]
    assert compose(spender.client).refusal == (402, "insufficient_quota", "quota_exceeded")
    assert ended(spender.client, MUSIC, task, "processing")["status"] == "succeeded"
    assert spender.client.get(MUSIC).status == 200
    agent = h.another(spender, kind="agent", agent_id="agent_x")
    for path in (MUSIC, f"{MUSIC}/{task}"):
        assert agent.client.get(path).refusal == (403, "permission_error", "permission_denied")
    some = h.another(tenant, allowed_models=("tts",))
    assert compose(some.client).refusal == (400, BAD, "model_not_allowed")
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_submission_is_replayed_as_it_was(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.2)
    key = {"Idempotency-Key": "k"}
    first = compose(tenant.client, key)
    ended(tenant.client, MUSIC, first.json["id"], "processing")
    again = compose(tenant.client, key)
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    assert compose(tenant.client, key, title="Other").refusal[2] == "idempotency_key_reuse"
    assert spent_nano_usd(h, tenant) == SONG
