"""`/v1/videos/avatars` on real processes: registered, made ready, listed, deleted; presets."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import (
    AVATAR,
    AVATARS,
    VIDEOS,
    clone,
    ended,
    post,
    register,
    spent_nano_usd,
)
from tests.support.client import Client
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.upstream import key_of

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"
RECORD = ["id", "name", "source_kind", "status", "error", "created_at"]


def test_avatar_is_made_paid_for_listed_and_deleted(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    begun = register(tenant.client)
    assert list(begun.json) == RECORD
    assert (begun.json["status"], begun.json["source_kind"]) == ("pending", "image")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", begun.json["created_at"])
    avatar = begun.json["id"]
    assert tenant.client.get(f"{AVATARS}/{avatar}").json == begun.json
    pending = tenant.client.send("DELETE", f"{AVATARS}/{avatar}")
    assert pending.refusal == (400, BAD, "invalid_request")
    h.upstream.finish()
    done = ended(tenant.client, AVATARS, avatar, "pending")
    assert done == {**begun.json, "status": "ready"}
    row = h.row(begun.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "avatar", 1)
    assert (row["cost_nano_usd"], row["task_id"], row["model"]) == (AVATAR, avatar, "avatar-create")
    assert tenant.client.get(f"/v1/logs/{row['id']}").json["kind"] == "video"
    assert tenant.client.get(AVATARS).json == {"avatars": [done]}
    stranger = h.tenant(nano_usd=0)
    assert stranger.client.send("DELETE", f"{AVATARS}/{avatar}").refusal == (404, BAD, "not_found")
    deleted = tenant.client.send("DELETE", f"{AVATARS}/{avatar}")
    assert (deleted.status, deleted.json) == (200, {"id": avatar, "deleted": True})
    assert h.upstream.last_request()["method"] == "DELETE"
    for method in ("GET", "DELETE"):
        reply = tenant.client.send(method, f"{AVATARS}/{avatar}")
        assert reply.refusal == (404, BAD, "not_found")
    assert tenant.client.get(AVATARS).json == {"avatars": []}
    assert spent_nano_usd(h, tenant) == AVATAR


def test_failed_avatar_tells_why_and_is_refunded(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.3, task_error={"message": "No face found."})
    begun = register(tenant.client, source_kind="video")
    done = ended(tenant.client, AVATARS, begun.json["id"], "pending")
    assert (done["status"], done["error"]) == ("failed", "No face found.")
    assert h.row(begun.trace)["status"] == "error"
    assert spent_nano_usd(h, tenant) == 0
    assert tenant.client.send("DELETE", f"{AVATARS}/{begun.json['id']}").status == 200


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ""},
        {"name": "x" * 21},
        {"name": None},
        {"source_url": "file:///etc/passwd"},
        {"source_url": "http://169.254.169.254/latest"},
        {"source_kind": "sound"},
    ],
)
def test_bad_field_is_refused(h: House, tenant: Tenant, asked: dict[str, Any]) -> None:
    assert register(tenant.client, **asked).refusal == (400, BAD, "invalid_request")
    assert h.upstream.stats()["requests"] == 0
    assert h.held_nano_usd(tenant) == 0


def test_who_may_register(h: House, tenant: Tenant) -> None:
    some = h.another(tenant, allowed_models=("tts",))
    status, _, code = register(some.client).refusal
    assert (status, code) == (403, "model_not_allowed")
    agent = h.another(tenant, kind="agent", agent_id="agent_x")
    assert register(agent.client).refusal[:2] == (403, "permission_error")
    poor = h.tenant(nano_usd=AVATAR - 1)
    assert register(poor.client).refusal == (402, "insufficient_quota", "quota_exceeded")


def test_presets_are_free_and_remembered(h: House) -> None:
    poor = h.tenant(nano_usd=0)
    presets = poor.client.get(f"{AVATARS}/presets").json["avatars"]
    assert presets[0] == {"id": "preset-anna", "name": "Anna"}
    assert [list(one) for one in presets] == [["id", "name"]] * 3


def test_registration_is_replayed_as_it_was(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.2)
    key = {"Idempotency-Key": "k"}
    first = register(tenant.client, key)
    ended(tenant.client, AVATARS, first.json["id"], "pending")
    again = register(tenant.client, key)
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    assert spent_nano_usd(h, tenant) == AVATAR


def test_what_a_digital_human_may_name(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    speaks: dict[str, Any] = {
        "model": "dh-avatar",
        "duration": 5,
        "text": "Hello",
        "voice": "preset-warm",
    }
    stranger = h.tenant()

    def refused(client: Client, **asked: Any) -> bool:
        reply = post(client, VIDEOS, **{**speaks, **asked})
        return reply.refusal == (400, BAD, "invalid_request")

    avatar = register(tenant.client).json["id"]
    h.upstream.fault("one", status=500)
    voice = clone(tenant.client).json["id"]  # by the second channel
    h.upstream.heal("one")
    assert refused(tenant.client, avatar=avatar)  # pending
    h.upstream.finish()
    ended(tenant.client, AVATARS, avatar, "pending")
    assert refused(stranger.client, avatar=avatar)
    assert refused(stranger.client, avatar="preset-anna", voice=voice)
    assert refused(tenant.client, avatar="preset-nobody")
    assert refused(tenant.client, avatar=avatar, voice="nobody")
    assert refused(tenant.client, avatar=avatar, voice=voice)  # not known to one channel alike
    for named in (avatar, "preset-anna"):
        begun = post(tenant.client, VIDEOS, **speaks, avatar=named)
        assert begun.status == 200, begun
    asked = [one for one in h.upstream.requests() if one["path"] == VIDEOS]
    headers = [{name.lower(): text for name, text in one["headers"].items()} for one in asked]
    assert {one["authorization"] for one in headers} == {f"Bearer {key_of('one')}"}
    sent = [one["body"] for one in asked]
    assert [avatar in body for body in sent] == [False, False]
    assert '"preset-anna"' in sent[1]
    assert tenant.client.send("DELETE", f"{AVATARS}/{avatar}").status == 200
    assert refused(tenant.client, avatar=avatar)
