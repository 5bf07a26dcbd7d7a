"""How a film is submitted: to whom, what is never asked twice, what a client that leaves stops."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import films
from tests.acceptance.films import (
    PORTRAIT,
    SECOND,
    TEXT,
    VIDEOS,
    ended,
    image,
    posted,
    spent,
    submit,
)
from tests.support.client import Client
from tests.support.house import House, house
from tests.support.scrape import Admin
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

SETTINGS = films.SETTINGS
FILM = {"model": "film", "content": [TEXT], "duration": 4}


def test_channels_that_have_not_taken_it_are_passed_over(h: House, tenant: Tenant) -> None:
    h.upstream.fault("two", status=503)
    h.upstream.fault("three", task_seconds=0.1, real_seconds=4)
    begun = submit(tenant.client, model="film-down")
    assert begun.status == 200, begun
    assert ended(tenant.client, begun.json["id"])["status"] == "succeeded"
    codes = [one["error_code"] for one in h.row(begun.trace)["attempts"]]
    assert codes == ["upstream_unreachable", "upstream_503"]
    assert spent(h, tenant) == 4 * SECOND


def test_refusal_is_passed_through_and_refunded(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", status=422, message="No such style.")
    refused = submit(tenant.client)
    assert refused.refusal == (422, "invalid_request_error", "invalid_request")
    assert refused.error["message"] == "No such style."
    assert h.row(refused.trace)["status"] == "error"
    assert h.upstream.requested("one", "two") == [1, 0]
    assert spent(h, tenant) == 0


UNKNOWN: dict[str, tuple[dict[str, Any], tuple[int, str]]] = {
    "lost": ({"refuse": True}, (502, "upstream_unreachable")),
    "504": ({"status": 504}, (504, "upstream_timeout")),
    "not JSON": ({"malformed": "json"}, (502, "upstream_error")),
    "no id": ({"body": {"status": "queued"}}, (502, "upstream_error")),
    "not HTTP": ({"malformed": "http"}, (502, "upstream_error")),
}


@pytest.mark.parametrize(("fault", "told"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_film_that_may_have_been_taken_is_refunded_and_asked_of_nobody_else(
    h: House, tenant: Tenant, fault: dict[str, Any], told: tuple[int, str]
) -> None:
    h.upstream.fault("one", **fault)
    assert_unknown(h, tenant, *told)


def test_film_without_an_answer_in_time_is_one_that_may_have_been_taken(
    database_url: str, tmp_path: Path
) -> None:
    hasty = {**SETTINGS, "timeouts": {"video_submit": 1}}
    with house(database_url, tmp_path, is_funded=False, **hasty) as h:
        h.upstream.fault("one", hang="headers")
        assert_unknown(h, h.tenant(), 504, "upstream_timeout")


def assert_unknown(h: House, tenant: Tenant, status: int, code: str) -> None:
    """A film is refused like this, paid back and asked of nobody else."""
    before = sum(h.metrics("gw_task_submit_unknown_total").values())
    refused = submit(tenant.client)
    assert (refused.status, refused.error["code"]) == (status, code)
    row = h.row(refused.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == ("interrupted", code, 0)
    assert h.upstream.requested("one", "two") == [1, 0]
    assert spent(h, tenant) == 0
    assert sum(h.metrics("gw_task_submit_unknown_total").values()) == before + 1
    assert tenant.client.get(VIDEOS).json == {"data": []}


def test_faces_are_registered_first_and_a_refused_one_rejects_the_film(
    h: House, tenant: Tenant
) -> None:
    asked = {"model": "film-faces", "content": [TEXT, image(PORTRAIT)]}
    h.upstream.fault("one", task_seconds=0.1)
    begun = submit(tenant.client, None, **asked)
    assert begun.status == 200, begun
    asset, film = posted(h)
    assert asset["path"] == "/v1/assets"
    assert "asset://" in film["body"]
    h.upstream.fault("one", asset={"status": 451, "message": "A minor."})
    refused = submit(tenant.client, None, **asked)
    assert refused.refusal == (400, "invalid_request_error", "invalid_request")
    assert refused.error["message"] == "A minor."
    assert h.row(refused.trace)["status"] == "rejected"


def test_client_that_leaves_stops_nothing_and_counts_until_the_submit_is_over(h: House) -> None:
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
    until(lambda: spent(h, tenant) == 4 * SECOND, what="the settlement")


def test_stopping_gateway_waits_for_submits_that_were_left_alone(
    database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, is_funded=False, **SETTINGS) as h:
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
        assert spent(h, tenant) == 4 * SECOND


def test_film_past_its_deadline_expires_and_is_refunded(database_url: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "tasks": {**SETTINGS["tasks"], "deadline": 1}}
    with house(database_url, tmp_path, is_funded=False, **settings) as h:
        tenant = h.tenant()
        h.upstream.fault("one", task_seconds=3600)
        begun = submit(tenant.client)
        done = ended(tenant.client, begun.json["id"])
        assert (done["status"], done["error"]["code"]) == ("expired", "task_expired")
        assert h.row(begun.trace)["status"] == "interrupted"
        assert spent(h, tenant) == 0
        until(
            lambda: [one for one in h.upstream.requests() if one["method"] == "DELETE"],
            what="the cancellation",
        )
