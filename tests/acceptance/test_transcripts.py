"""`POST /v1/transcripts/extract` on real processes: a script, at once or after a while."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import SCRIPT, TRANSCRIPTS, extract, post, spent_nano_usd
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

SETTINGS = sounds.HASTY
BAD = "invalid_request_error"


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_script_comes_whole_and_is_paid_for_by_the_call(
    h: House, tenant: Tenant, later: bool
) -> None:
    h.upstream.fault("one", later=later, task_seconds=0.5)
    reply = extract(tenant.client, language="en")
    assert reply.status == 200
    names = ["id", "text", "title", "language", "duration_sec", "segments"]
    assert list(reply.json) == names
    assert reply.json["text"].startswith("Welcome to the harbour.")
    assert [list(one) for one in reply.json["segments"]] == [["start", "end", "text"]] * 3
    row = h.row(reply.trace)
    assert (row["status"], row["model"], row["unit_type"]) == ("success", "script", "transcript")
    assert (row["unit_count"], row["cost_nano_usd"]) == (1, SCRIPT)
    assert row["task_id"] == reply.json["id"]
    (sent,) = [one for one in h.upstream.requests() if one["method"] == "POST"]
    assert '"vendor-script"' in sent["body"]
    assert spent_nano_usd(h, tenant) == SCRIPT
    found = tenant.client.get("/v1/logs?unit_type=transcript").json["data"]
    assert tenant.client.get(f"/v1/logs/{found[0]['id']}").json["kind"] == "audio"


@pytest.mark.parametrize(
    "asked", [{"url": ""}, {"url": "http://10.0.0.1/"}, {"model": 5}, {"language": 5}]
)
def test_bad_field_is_refused(h: House, tenant: Tenant, asked: dict[str, Any]) -> None:
    given = {"url": "https://video.example/1", **asked}
    reply = post(tenant.client, TRANSCRIPTS, **given)
    assert reply.refusal == (400, BAD, "invalid_request")
    assert h.upstream.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("fault", "told", "status"),
    [
        (
            {"later": True, "task_seconds": 0.3, "task_error": {"message": "No speech."}},
            (502, "api_error", "upstream_error"),
            "error",
        ),
        (
            {"later": True, "task_seconds": 100},
            (504, "api_error", "upstream_timeout"),
            "interrupted",
        ),
        ({"status": 403}, (403, "permission_error", "permission_denied"), "error"),
    ],
    ids=["no speech", "too late", "refused"],
)
def test_failure_is_told_and_refunded(
    h: House, tenant: Tenant, fault: dict[str, Any], told: tuple[int, str, str], status: str
) -> None:
    h.upstream.fault("one", **fault)
    reply = extract(tenant.client)
    assert reply.refusal == told
    if "task_error" in fault:
        assert reply.error["message"] == "No speech."
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_count"]) == (status, 0, 0)
    assert spent_nano_usd(h, tenant) == 0


def test_client_that_leaves_is_refunded(h: House, tenant: Tenant) -> None:
    h.upstream.fault("quiet", hang="headers")
    body = {"model": "script-quiet", "url": "https://video.example/1"}
    call = tenant.client.begin("POST", TRANSCRIPTS, body)
    h.upstream.wait(active=1)
    call.leave()
    until(lambda: h.rows(tenant), what="the row")
    (row,) = h.rows(tenant)
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert spent_nano_usd(h, tenant) == 0


def test_script_is_replayed(h: House, tenant: Tenant) -> None:
    key = {"Idempotency-Key": "k"}
    first, again = extract(tenant.client, key), extract(tenant.client, key)
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.body, again.trace) == (first.body, first.trace)
    assert h.upstream.requested("one") == [1]
    assert spent_nano_usd(h, tenant) == SCRIPT
