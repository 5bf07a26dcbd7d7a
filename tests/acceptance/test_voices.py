"""`/v1/audio/voices` on real processes: a voice is cloned, paid for, and listed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import RECORDING, VOICE, VOICES, clone, spent_nano_usd
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.transactions import transaction
from tests.support.waiting import until

SETTINGS = sounds.HASTY
BAD = "invalid_request_error"


def own(tenant: Tenant) -> list[str]:
    """The names of the account's own voices, as they are listed."""
    voices = tenant.client.get(VOICES).json["voices"]
    return [voice["name"] for voice in voices if voice["kind"] == "cloned"]


def test_voice_is_cloned_for_its_price_and_listed_after_the_presets(
    h: House, tenant: Tenant
) -> None:
    reply = clone(tenant.client, name="First", text="Say this")
    assert list(reply.json) == ["id", "name", "kind", "status", "created_at"]
    assert isinstance(reply.json["created_at"], int)
    assert (reply.json["kind"], reply.json["status"]) == ("cloned", "ready")
    sent = h.upstream.last_request()
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    assert headers["idempotency-key"] == reply.json["id"]
    row = h.row(reply.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "voice", 1)
    assert (row["cost_nano_usd"], row["task_id"]) == (VOICE, reply.json["id"])
    clone(tenant.client, name="Second")
    voices = tenant.client.get(VOICES).json["voices"]
    assert [voice["kind"] for voice in voices] == ["preset"] * 3 + ["cloned"] * 2
    assert [voice["name"] for voice in voices[3:]] == ["Second", "First"]
    assert all(list(voice) == ["id", "name", "kind", "language", "preview_url"] for voice in voices)
    found = tenant.client.get(f"/v1/logs?ref={reply.json['id']}&unit_type=voice").json["data"]
    assert [row["request_id"] for row in found] == [reply.trace]
    assert tenant.client.get(f"/v1/logs/{found[0]['id']}").json["kind"] == "audio"
    assert own(h.tenant()) == []


def test_list_is_free_and_counts_for_the_limits(h: House) -> None:
    poor = h.tenant(nano_usd=0)
    assert poor.client.get(VOICES).status == 200
    assert h.rows(poor) == []
    agent = h.another(poor, kind="agent", agent_id="agent_x")
    assert agent.client.get(VOICES).refusal == (403, "permission_error", "permission_denied")
    limited = h.tenant(rpm=1)
    assert [limited.client.get(VOICES).status for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ""},
        {"name": "x" * 21},
        {"name": None},
        {"audio_url": "ftp://media.example/a"},
        {"audio_url": "http://127.1/a"},
        {"audio_url": "http://[::1]/a"},
        {"audio_url": "http://printer.local/a"},
        {"text": 5},
    ],
)
def test_bad_field_is_refused_before_anything_is_held(
    h: House, tenant: Tenant, asked: dict[str, Any]
) -> None:
    assert clone(tenant.client, **asked).refusal == (400, BAD, "invalid_request")
    assert h.upstream.stats()["requests"] == 0
    assert (h.held_nano_usd(tenant), own(tenant)) == (0, [])


@pytest.mark.parametrize(
    ("fault", "told", "asked"),
    [
        ({"status": 400}, (400, BAD, "invalid_request"), [1, 0]),
        ({"status": 500}, (500, "api_error", "upstream_error"), [1, 1]),
        ({"refuse": True}, (502, "api_error", "upstream_unreachable"), [1, 0]),
        ({"status": 504}, (504, "api_error", "upstream_timeout"), [1, 0]),
        ({"body": {"status": "ready"}}, (502, "api_error", "upstream_error"), [1, 0]),
        ({"hang": "headers"}, (504, "api_error", "upstream_timeout"), [1, 0]),
    ],
    ids=["refused", "both fail", "lost", "504", "no id", "silent"],
)
def test_failed_clone_costs_nothing_and_is_asked_for_again_only_where_none_was_made(
    h: House,
    tenant: Tenant,
    fault: dict[str, Any],
    told: tuple[int, str, str],
    asked: list[int],
) -> None:
    h.upstream.fault("one", **fault)
    h.upstream.fault("two", **fault)
    reply = clone(tenant.client, {"Idempotency-Key": "k"})
    assert reply.refusal == told
    assert h.upstream.requested("one", "two") == asked
    row = h.row(reply.trace)
    assert (row["cost_nano_usd"], row["unit_count"]) == (0, 0)
    if row["status"] == "interrupted":
        assert h.event("task_submit_unknown", task_id=row["task_id"])
    else:
        assert not h.events("task_submit_unknown", task_id=row["task_id"])
    assert spent_nano_usd(h, tenant) == 0
    h.upstream.reset()
    assert clone(tenant.client, {"Idempotency-Key": "k"}).status == 200
    assert own(tenant) == ["Me"]


def test_client_that_leaves_finds_its_voice_and_its_answer(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", pause="headers")
    body = {"model": "clone", "name": "Gone", "audio_url": RECORDING}
    key = {"Idempotency-Key": "k"}
    call = tenant.client.begin("POST", VOICES, body, headers=key)
    h.upstream.wait(paused=1)
    call.leave()
    h.upstream.heal("one")
    h.upstream.resume()
    until(lambda: own(tenant) == ["Gone"], what="the voice")
    until(lambda: len(h.rows(tenant)) == 1, what="the row")
    again = tenant.client.send("POST", VOICES, body, headers=key)
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert spent_nano_usd(h, tenant) == VOICE


def test_presets_that_cannot_be_read_are_remembered(h: House, tenant: Tenant) -> None:
    before = tenant.client.get(VOICES).json
    for name in ("one", "two", "three", "quiet"):
        h.upstream.fault(name, catalog={"status": 500})

    def is_asked_again() -> bool:
        assert tenant.client.get(VOICES).json == before
        return bool(h.upstream.requested("one")[0] >= 1)

    h.upstream.reset()
    for name in ("one", "two", "three", "quiet"):
        h.upstream.fault(name, catalog={"status": 500})
    until(is_asked_again, what="the upstream asked again")
    assert tenant.client.get(VOICES).json == before


def test_voice_that_the_database_will_not_take_yet_is_kept_and_paid_for_once_it_does(
    h: House, tenant: Tenant
) -> None:
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE voices IN ACCESS EXCLUSIVE MODE")
        body = {"model": "clone", "name": "Late", "audio_url": RECORDING}
        call = tenant.client.begin("POST", VOICES, body)
        h.event("voice_not_stored", channel="one")
    assert call.reply().status == 200
    assert h.upstream.requested("one", "two") == [1, 0]
    assert (own(tenant), spent_nano_usd(h, tenant)) == (["Late"], VOICE)
