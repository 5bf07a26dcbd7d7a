"""`GET /v1/videos/clip-templates` on real processes: read once in a while, shown to everybody."""

from __future__ import annotations

import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import TEMPLATES
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"


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


def test_who_may_read_them(h: House, tenant: Tenant) -> None:
    assert tenant.client.get(f"{TEMPLATES}?scene=nowhere").refusal == (400, BAD, "invalid_request")
    barred = h.another(tenant, allowed_models=("song",))
    for path in (TEMPLATES, f"{TEMPLATES}/realman-plain"):
        status, _, code = barred.client.get(path).refusal
        assert (status, code) == (403, "model_not_allowed")
    assert h.another(tenant, allowed_models=("clip-news",)).client.get(TEMPLATES).status == 200
    assert h.tenant(nano_usd=0).client.get(TEMPLATES).status == 200
    agent = h.another(tenant, kind="agent", agent_id="agent_x")
    assert agent.client.get(TEMPLATES).refusal[2] == "permission_denied"
    assert h.rows(tenant) == []


def test_what_was_read_is_remembered_and_outlives_its_upstreams(h: House, tenant: Tenant) -> None:
    path = f"{TEMPLATES}?scene=virtualman"
    before = tenant.client.get(path).json["templates"]
    assert tenant.client.get(path).json["templates"] == before
    h.upstream.reset()
    for name in ("one", "two", "three"):
        h.upstream.fault(name, catalog={"status": 503})
    until(
        lambda: tenant.client.get(path).status == 200 and h.upstream.requested("one")[0] >= 1,
        what="the upstream asked again",
    )
    assert tenant.client.get(path).json["templates"] == before


def test_id_that_leads_elsewhere_goes_to_no_upstream(h: House, tenant: Tenant) -> None:
    before = h.upstream.requested("one", "two", "three")
    for name in ("..", ".", "%2E%2E", "%2e."):
        assert tenant.client.get(f"{TEMPLATES}/{name}").refusal == (404, BAD, "not_found")
    assert h.upstream.requested("one", "two", "three") == before


def test_failure_without_a_memory_is_told(h: House, tenant: Tenant) -> None:
    for name in ("one", "two", "three"):
        h.upstream.fault(name, catalog={"status": 503})
    reply = tenant.client.get(f"{TEMPLATES}/newsmixcutting-bold")
    assert reply.refusal == (503, "api_error", "upstream_error")
    for name in ("one", "two", "three"):
        h.upstream.fault(name, catalog={"refuse": True})
    reply = tenant.client.get(f"{TEMPLATES}/newsmixcutting-bold")
    assert reply.refusal == (502, "api_error", "upstream_unreachable")
