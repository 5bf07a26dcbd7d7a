"""`/v1/videos/avatars` and `/v1/videos/clip-templates` on real processes: avatars are registered,
made ready, listed, deleted; presets and templates are shown to everybody.
"""

import re
from typing import Any

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.upstream import key_of
from tests.acceptance import sounds
from tests.acceptance.sounds import AVATAR, AVATARS, TEMPLATES, VIDEOS, clone, ended, post, register

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"
RECORD = ["id", "name", "source_kind", "status", "error", "created_at"]


def test_avatar_is_made_paid_for_listed_and_deleted(h: Deployment, tenant: Tenant) -> None:
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
    done = ended(tenant.client, AVATARS, avatar)
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
    assert h.spent_nano_usd(tenant) == AVATAR


def test_what_a_digital_human_may_name(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    speaks: dict[str, Any] = {
        "model": "dh-avatar",
        "duration": 5,
        "text": "Hello",
        "voice": "preset-warm",
    }
    stranger = h.tenant()

    def refused(client: Client, **request: Any) -> bool:
        reply = post(client, VIDEOS, **{**speaks, **request})
        return reply.refusal == (400, BAD, "invalid_request")

    avatar = register(tenant.client).json["id"]
    h.upstream.fault("one", status=500)
    voice = clone(tenant.client).json["id"]  # by the second channel
    h.upstream.heal("one")
    assert refused(tenant.client, avatar=avatar)  # pending
    h.upstream.finish()
    ended(tenant.client, AVATARS, avatar)
    assert refused(stranger.client, avatar=avatar)
    assert refused(stranger.client, avatar="preset-anna", voice=voice)
    assert refused(tenant.client, avatar="preset-nobody")
    assert refused(tenant.client, avatar=avatar, voice="nobody")
    assert refused(tenant.client, avatar=avatar, voice=voice)  # not known to one channel alike
    for named in (avatar, "preset-anna"):
        begun = post(tenant.client, VIDEOS, **speaks, avatar=named)
        assert begun.status == 200, begun
    request = [one for one in h.upstream.requests() if one["path"] == VIDEOS]
    headers = [{name.lower(): text for name, text in one["headers"].items()} for one in request]
    assert {one["authorization"] for one in headers} == {f"Bearer {key_of('one')}"}
    sent = [one["body"] for one in request]
    assert [avatar in body for body in sent] == [False, False]
    assert '"preset-anna"' in sent[1]
    assert tenant.client.send("DELETE", f"{AVATARS}/{avatar}").status == 200
    assert refused(tenant.client, avatar=avatar)


def test_presets_are_shown_to_everybody(tenant: Tenant) -> None:
    presets = tenant.client.get(f"{AVATARS}/presets").json["avatars"]
    assert presets[0] == {"id": "preset-anna", "name": "Anna"}
    assert [list(one) for one in presets] == [["id", "name"]] * 3


def test_templates_of_a_scene_and_of_all_scenes(tenant: Tenant) -> None:
    one = tenant.client.get(f"{TEMPLATES}?scene=realMan").json["templates"]
    assert [list(item) for item in one] == [
        ["id", "title", "cover", "has_title", "has_persona"]
    ] * 3
    assert [(item["has_title"], item["has_persona"]) for item in one] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    every = tenant.client.get(TEMPLATES).json["templates"]
    assert [item["id"].partition("-")[0] for item in every[::3]] == [
        "virtualman",
        "realman",
        "oralmixcutting",
        "newsmixcutting",
    ]
    assert tenant.client.get(f"{TEMPLATES}?scene=").json["templates"] == every


def test_template_as_a_whole(tenant: Tenant) -> None:
    shown = tenant.client.get(f"{TEMPLATES}/realman-plain").json
    assert list(shown) == [
        *("id", "title", "cover", "has_title", "has_persona"),
        *("scene", "canvas", "layers"),
    ]
    assert shown["canvas"] == {"width": 1080, "height": 1920, "ratio": "9:16"}
    assert [list(layer) for layer in shown["layers"]] == [["id", "type", "name", "editable"]] * 3
    assert (shown["scene"], shown["layers"][0]["editable"]) == ("realMan", False)
    missing = tenant.client.get(f"{TEMPLATES}/nobody-knows")
    assert missing.refusal == (404, BAD, "not_found")


def test_who_may_read_them(h: Deployment, tenant: Tenant) -> None:
    assert tenant.client.get(f"{TEMPLATES}?scene=nowhere").refusal == (400, BAD, "invalid_request")
    barred = h.another(tenant, allowed_models=["song"])
    for path in (TEMPLATES, f"{TEMPLATES}/realman-plain"):
        status, _, code = barred.client.get(path).refusal
        assert (status, code) == (403, "model_not_allowed")
    assert h.another(tenant, allowed_models=["clip-news"]).client.get(TEMPLATES).status == 200
    assert h.rows(tenant) == []


def test_id_that_leads_elsewhere_goes_to_no_upstream(h: Deployment, tenant: Tenant) -> None:
    before = h.upstream.requested("one", "two", "three")
    for name in ("..", ".", "%2E%2E", "%2e."):
        assert tenant.client.get(f"{TEMPLATES}/{name}").refusal == (404, BAD, "not_found")
    assert h.upstream.requested("one", "two", "three") == before
