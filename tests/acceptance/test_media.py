"""What holds for media of every kind on real processes: who may ask, what is refused, refunded,
replayed, listed, cancelled. What is made is in `test_sounds.py`, `test_videos.py` and
`test_avatars.py`.

Contract for media, §2 to §5. Each field has its rows in `tests/unit/media`, each failure of a
submit in `tests/unit/calls/test_job_submit.py` and `tests/unit/calls/test_whole_submit.py`.
"""

from typing import Any

import pytest

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance import sounds
from tests.acceptance.sounds import AVATARS, COSTS, LISTS, SUBMITS, TEMPLATES, VOICES, ask, ended
from tests.support.rows import each

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"
UNITS = {"speech": "audio", "speech-task": "audio", "script": "transcript", "film": "video"}
TASKS = tuple(LISTS)

BAD_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("speech", {"input": "x" * 10_001}),
    ("speech", {"speed": "1"}),
    ("speech", {"voice": "voc_" + "0" * 32}),
    ("speech-task", {"input": "x" * 50_001}),
    ("voice", {"name": "x" * 21}),
    ("voice", {"audio_url": "http://printer.local/a"}),
    ("script", {"url": "http://10.0.0.1/"}),
    ("script", {"language": 5}),
    ("music", {"prompt": "x" * 201}),
    ("music", {"prompt": None}),
    ("avatar", {"source_kind": "sound"}),
    ("avatar", {"source_url": "http://169.254.169.254/latest"}),
    ("film", {"content": [{"type": "image_url", "image_url": {"url": "https://a.example/1"}}]}),
    ("film", {"duration": True}),
]


@each("kind, request", BAD_FIELDS)
def test_bad_field_is_refused_before_anything_is_held(
    h: Deployment, kind: str, request: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = ask(tenant.client, kind, **request)
    assert reply.refusal == (400, BAD, "invalid_request")
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
    assert row["unit_type"] == UNITS.get(kind, kind)
    assert h.upstream.stats()["requests"] == 0
    assert h.spent_nano_usd(tenant) == 0


@each("kind", [kind for kind in SUBMITS if kind != "avatar"])
def test_model_of_another_endpoint_and_none_at_all(
    h: Deployment, tenant: Tenant, kind: str
) -> None:
    other = ask(tenant.client, kind, model="sim-model")
    assert other.refusal == (503, "server_error", "no_channel_available")
    assert ask(tenant.client, kind, model="nothing").refusal == (400, BAD, "model_not_found")


@each("kind", SUBMITS)
def test_who_may_ask(h: Deployment, tenant: Tenant, kind: str) -> None:
    some = h.another(tenant, allowed_models=["sim-model"])
    status = 403 if kind == "avatar" else 400
    assert ask(some.client, kind).refusal == (status, BAD, "model_not_allowed")
    agent = h.another(tenant, kind="agent", agent_id="agent_x")
    assert ask(agent.client, kind).refusal == (403, "permission_error", "permission_denied")
    poor = h.tenant(nano_usd=COSTS[kind] - 1)
    assert ask(poor.client, kind).refusal == (402, "insufficient_quota", "quota_exceeded")
    limited = h.tenant(rpm=1, nano_usd=0)
    assert [ask(limited.client, kind).status for _ in range(2)] == [402, 429]


@each("path", [*(SUBMITS[kind][0] for kind in TASKS), VOICES, f"{AVATARS}/presets", TEMPLATES])
def test_lists_are_free_at_any_balance_and_count_for_the_limits(h: Deployment, path: str) -> None:
    limited = h.tenant(nano_usd=0, rpm=1)
    assert [limited.client.get(path).status for _ in range(2)] == [200, 429]
    assert h.rows(limited) == []
    agent = h.another(limited, kind="agent", agent_id="agent_x")
    assert agent.client.get(path).refusal == (403, "permission_error", "permission_denied")


@each("kind", SUBMITS)
def test_request_is_replayed_as_it_was_and_paid_once(h: Deployment, kind: str) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", task_seconds=0.2, real_seconds=2)
    path = SUBMITS[kind][0]
    first = ask(tenant.client, kind, "k")
    assert first.status == 200
    if kind in TASKS:
        ended(tenant.client, path, first.json["id"])
    again = ask(tenant.client, kind, "k")
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    assert (again.trace, again.headers["content-type"]) == (
        first.trace,
        first.headers["content-type"],
    )
    other: dict[str, dict[str, Any]] = {
        "film": {"duration": 3},
        "script": {"language": "en"},
        "music": {"title": "B"},
    }
    reused = ask(tenant.client, kind, "k", **other.get(kind, {"text": "b", "name": "B"}))
    assert reused.refusal == (409, BAD, "idempotency_key_reuse")
    assert h.spent_nano_usd(tenant) == COSTS[kind]
    assert [row["status"] for row in h.rows(tenant)] == ["success", "rejected"]
    assert [one["method"] for one in h.upstream.requests()].count("POST") == 1


# Who is asked: the second channel where nothing can have been made, else nobody. What may have been
# made has an unknown outcome.
REFUSED = (422, BAD, "invalid_request")
FAILED = (500, "api_error", "upstream_error")
UNUSABLE = (502, "api_error", "upstream_error")
LOST = (502, "api_error", "upstream_unreachable")
LATE = (504, "api_error", "upstream_timeout")
FAILURES: list[tuple[str, dict[str, Any], tuple[int, str, str], list[int], str]] = [
    *((kind, {"status": 422}, REFUSED, [1, 0], "error") for kind in SUBMITS),
    *((kind, {"status": 500}, FAILED, [1, 1], "error") for kind in SUBMITS if kind != "avatar"),
    ("speech", {"refuse": True}, LOST, [1, 1], "error"),
    ("speech", {"malformed": "html"}, UNUSABLE, [1, 0], "interrupted"),
    ("speech", {"hang": "headers"}, LATE, [1, 0], "interrupted"),
    ("voice", {"refuse": True}, LOST, [1, 0], "interrupted"),
    ("voice", {"status": 504}, LATE, [1, 0], "interrupted"),
    ("voice", {"body": {"status": "ready"}}, UNUSABLE, [1, 0], "interrupted"),
    ("music", {"body": {}}, UNUSABLE, [1, 0], "interrupted"),
    ("film", {"status": 504}, LATE, [1, 0], "interrupted"),
    ("film", {"malformed": "json"}, UNUSABLE, [1, 0], "interrupted"),
]


@each("kind, fault, result, request, status", FAILURES)
def test_failed_submit_is_refunded_and_repeated_only_where_nothing_was_made(
    h: Deployment,
    kind: str,
    fault: dict[str, Any],
    result: tuple[int, str, str],
    request: list[int],
    status: str,
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    for name in ("one", "two"):
        h.upstream.fault(name, **fault)
    reply = ask(tenant.client, kind, "k")
    assert reply.refusal == result
    assert h.upstream.requested("one", "two") == request
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_count"]) == (status, 0, 0)
    assert row["error_code"] == result[2]
    if status == "interrupted" and kind != "speech":
        assert h.event("task_submit_unknown", task_id=row["task_id"])
    assert h.spent_nano_usd(tenant) == 0
    if kind in TASKS:
        assert tenant.client.get(SUBMITS[kind][0]).json == {LISTS[kind]: []}
    # Its key is free again.
    h.upstream.reset()
    h.upstream.fault("one", task_seconds=0.1)
    again = ask(tenant.client, kind, "k")
    assert again.status == 200
    if kind in TASKS:
        ended(tenant.client, SUBMITS[kind][0], again.json["id"])


@each("kind", TASKS)
def test_task_that_fails_says_why_and_is_refunded(h: Deployment, tenant: Tenant, kind: str) -> None:
    error = {"code": "blocked", "message": "Not this."}
    h.upstream.fault("one", task_seconds=0.3, task_error=error)
    begun = ask(tenant.client, kind)
    done = ended(tenant.client, SUBMITS[kind][0], begun.json["id"])
    assert (done["status"], done["error"]) == ("failed", "Not this." if kind == "avatar" else error)
    row = h.row(begun.trace)
    code = "generation_failed" if kind == "avatar" else "blocked"  # its record shows none
    assert (row["status"], row["error_code"], row["unit_count"]) == ("error", code, 0)
    assert h.spent_nano_usd(tenant) == 0


# A speech and an avatar have no state of their own for it.
WORDS = {"film": "cancelled", "music": "cancelled"}


@each("kind", TASKS)
def test_task_in_flight_is_shown_and_may_be_cancelled(h: Deployment, kind: str) -> None:
    tenant = h.tenant()
    h.upstream.fault("one", task_seconds=1000)
    path = SUBMITS[kind][0]
    begun = ask(tenant.client, kind)
    (shown,) = tenant.client.get("/v1/logs?include=in_flight").json["in_flight"]
    assert (shown["task_id"], shown["request_id"]) == (begun.json["id"], begun.trace)
    assert h.held_nano_usd(tenant) == COSTS[kind]
    cancelled = h.gw("tasks", "cancel", begun.json["id"])
    assert cancelled["refunded_usd"] == f"{COSTS[kind] / 10**9:.9f}".rstrip("0")
    task = tenant.client.get(f"{path}/{begun.json['id']}").json
    assert task["status"] == WORDS.get(kind, "failed")
    assert kind == "avatar" or task["error"]["code"] == "task_cancelled"
    assert h.row(begun.trace)["status"] == ("interrupted" if kind in WORDS else "error")
    assert h.spent_nano_usd(tenant) == 0
