"""`POST /v1/images/generations` on real processes: what is asked, sent on, answered and paid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.acceptance import pictures
from tests.acceptance.pictures import EACH, PATH, begin, generate, refusal
from tests.support.client import NANO_PER_USD, Reply
from tests.support.house import House, house
from tests.support.rows import each
from tests.support.tenants import Tenant
from tests.support.upstream import key_of
from tests.support.waiting import until

SETTINGS = pictures.SETTINGS
BAD = "invalid_request_error"


@pytest.fixture
def library(h: House, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client


def test_library_gets_its_images_and_pays_for_each(
    h: House, tenant: Tenant, library: OpenAI
) -> None:
    answer = library.images.with_raw_response.generate(
        model="picture", prompt="a boat", n=3, size="1024x1024"
    )
    made = answer.parse().data
    assert made is not None
    urls = [image.url for image in made]
    assert len(set(urls)) == 3
    row = h.row(answer.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["protocol"]) == ("success", "picture", "images")
    assert (row["unit_count"], row["unit_type"], row["cost_nano_usd"]) == (3, "image", 3 * EACH)
    assert row["result_urls"] == urls
    assert row["result_expires_at"] - row["created_at"] <= timedelta(hours=24)
    assert row["result_expires_at"] - row["created_at"] > timedelta(hours=23)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD - 3 * EACH


def test_bytes_go_to_the_upstream_and_back_unchanged(h: House, tenant: Tenant) -> None:
    said = b'{ "data" : [ {"url":"https:\\/\\/p.example/1", "extra": 1.50} ],"usage":{"n":1e0} }\n'
    h.upstream.fault("one", body=said.decode(), headers={"Content-Type": "text/plain"})
    raw = (
        b'{"seed" : 7, "model":"renamed","prompt":"a \\u0041 \xc3\xbc", "size":"2K",'
        b' "watermark": false, "image": ["https://a.example/1"]}'
    )
    reply = generate(tenant.client, raw, {"Idempotency-Key": "once", "X-Custom": "mine"})
    assert (reply.status, reply.body) == (200, said)
    sent = h.upstream.last_request()
    assert sent["path"] == PATH
    assert sent["body"].encode() == raw.replace(b'"renamed"', '"vendor/ünlike"'.encode())
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    assert headers["authorization"] == f"Bearer {key_of('one')}"
    assert {"idempotency-key", "x-custom", "x-api-key"}.isdisjoint(headers)
    assert tenant.key not in json.dumps(sent)


@each(
    "asked, usd_thousandths",
    [
        ({"model": "area"}, 80),
        ({"model": "area", "size": "1536x1536"}, 40),
        ({"model": "area", "size": "2048x2048", "n": 2}, 160),
        ({"model": "area", "size": "512x512", "image": ["https://a.example/1"] * 10}, 90),
        ({"model": "promoted", "n": 3}, 36),
        ({"n": 4, "sim": {"events": 1}}, 40),
        ({"n": 2, "sim": {"events": 0}}, 0),
        ({"n": 1, "sim": {"events": 3}}, 120),
    ],
)
def test_price(h: House, asked: dict[str, Any], usd_thousandths: int) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = generate(tenant.client, **asked)
    assert reply.status == 200
    cost = usd_thousandths * 1_000_000
    assert h.row(reply.trace)["cost_nano_usd"] == cost
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD - cost


@each(
    "asked, param",
    [
        ({"prompt": ""}, "prompt"),
        ({"n": 11}, "n"),
        ({"n": "3"}, "n"),
        ({"model": "area", "size": "2K"}, "size"),
        ({"image": ["https://a.example/1"] * 11}, "image"),
        ({"image": ["not a link"]}, "image[0]"),
        ({"stream": True}, "stream"),
        ({"model": 5}, "model"),
    ],
)
def test_bad_member_is_named_and_nothing_is_charged(
    h: House, asked: dict[str, Any], param: str
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = generate(tenant.client, **asked)
    assert refusal(reply) == (400, BAD, "invalid_request", param)
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_type"]) == ("rejected", 0, "image")
    named = asked.get("model", "picture")
    assert row["model"] == (named if isinstance(named, str) else "")
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


@each(
    "model, told",
    [
        ("nothing", (400, BAD, "model_not_found", "model")),
        ("soon", (400, BAD, "model_not_found", "model")),
        ("sim-model", (503, "server_error", "no_channel_available", "model")),
        ("unserved", (503, "server_error", "no_channel_available", None)),
    ],
)
def test_model_that_makes_no_images_here(
    h: House, tenant: Tenant, model: str, told: tuple[int, str, str, str | None]
) -> None:
    reply = generate(tenant.client, model=model)
    assert refusal(reply) == told
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == ("rejected", told[2], 0)
    assert h.held_nano_usd(tenant) == 0


def test_key_may_use_what_its_list_names(h: House, tenant: Tenant) -> None:
    some = h.another(tenant, allowed_models=("renamed",))
    assert generate(some.client, model="picture-nano").status == 200
    told = (400, BAD, "model_not_allowed", "model")
    assert refusal(generate(some.client)) == told


def test_other_refusals_have_the_images_shape_too(h: House) -> None:
    poor = h.tenant(nano_usd=EACH)
    quota = (402, "insufficient_quota", "quota_exceeded", None)
    assert refusal(generate(poor.client, n=2)) == quota
    assert generate(poor.client).status == 200
    assert refusal(generate(poor.client)) == quota
    agent = h.another(poor, kind="agent", agent_id="agent_x")
    assert refusal(generate(agent.client)) == (403, "permission_error", "permission_denied", None)
    stranger = generate(poor.client, headers={"Authorization": "Bearer nobody"})
    assert refusal(stranger) == (401, "authentication_error", "invalid_api_key", None)
    limited = h.tenant(rpm=1)
    assert generate(limited.client).headers["x-ratelimit-remaining-requests"] == "0"
    told = generate(limited.client)
    assert refusal(told) == (429, "rate_limit_error", "rate_limit_exceeded", None)
    assert int(told.headers["retry-after"]) > 0


def test_call_log_tells_of_images_made_and_not_made(h: House, tenant: Tenant) -> None:
    made = generate(tenant.client, n=2)
    failed = generate(tenant.client, sim={"status": 422})
    refused = generate(tenant.client, n=11)
    tenant.client.chat(model="sim-model")
    until(lambda: len(h.rows(tenant)) == 4, what="the rows")
    rows = tenant.client.get("/v1/logs?unit_type=image&order=asc").json["data"]
    assert [row["request_id"] for row in rows] == [made.trace, failed.trace, refused.trace]
    assert [row["status"] for row in rows] == ["success", "error", "rejected"]
    assert [row["unit_count"] for row in rows] == [2, 0, 0]
    assert [row["cost"] for row in rows] == ["80", "0", "0"]
    assert rows[0]["result_urls"] == [image["url"] for image in made.json["data"]]
    detail = tenant.client.get(f"/v1/logs/{rows[0]['id']}").json
    assert detail["kind"] == "image"
    facts = {fact["k"]: fact["v"] for fact in detail["gateway"]}
    assert facts["cost_computed"] == "2 x 0.04 = 0.08 USD"
    assert {"k": "n", "v": "2"} in detail["request"]


# --- Images that do not come ---

ODD = '{"error" : {"message":"Size must be at least 1920x1920","code":"InvalidParameter"}}'


@each("status", [400, 401, 403, 404, 422, 429])
def test_refusal_passes_with_its_status_and_body(h: House, status: int) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = generate(tenant.client, sim={"status": status, "body": ODD})
    assert (reply.status, reply.body) == (status, ODD.encode())
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_count"]) == ("error", 0, 0)
    assert row["error_message"] == "Size must be at least 1920x1920"
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD
    # An answered call has the key in use again that 401 and 403 set aside.
    assert generate(h.tenant().client, model="renamed").status == 200


@each("fault", [{"status": 500}, {"refuse": True}])
def test_next_channel_is_tried_and_the_row_is_one(h: House, fault: dict[str, object]) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **fault)
    h.upstream.fault("two", **fault)
    reply = generate(tenant.client, n=2)
    assert reply.status == 200
    row = h.row(reply.trace)
    assert (row["cost_nano_usd"], len(row["attempts"])) == (2 * EACH, 2)
    assert len(h.rows(tenant)) == 1
    assert [tried[0] for tried in row["detail"]["tried"]] == ["one", "two", "three"]


@each(
    "fault",
    [
        {"malformed": "json"},
        {"malformed": "html"},
        {"body": ""},
        {"cut_after_bytes": 20},
        {"status": 204},
        {"status": 302, "headers": {"Location": "http://elsewhere.example/"}},
    ],
)
def test_answer_that_cannot_be_used_is_made_once_and_paid_by_nobody(
    h: House, fault: dict[str, object]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **fault)
    reply = generate(tenant.client, n=2)
    assert refusal(reply) == (502, "api_error", "upstream_error", None)
    assert "location" not in reply.headers
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "error",
        "upstream_error",
        0,
    )
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_last_server_error_passes_with_its_status_and_body(h: House, tenant: Tenant) -> None:
    for name in ("one", "two", "three"):
        h.upstream.fault(name, status=529, body=f"{ODD} {name}", headers={"X-Up": "1"})
    reply = generate(tenant.client)
    assert (reply.status, reply.body) == (529, f"{ODD} three".encode())
    assert "x-up" not in reply.headers
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "error",
        "upstream_error",
        0,
    )
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_nobody_there_is_502(h: House, tenant: Tenant) -> None:
    h.upstream.fault(refuse=True)
    reply = generate(tenant.client)
    assert refusal(reply) == (502, "api_error", "upstream_unreachable", None)
    assert h.upstream.requested("one", "two", "three") == [1, 1, 1]


def test_client_that_leaves_cancels_the_upstream_and_pays_nothing(h: House, tenant: Tenant) -> None:
    call = begin(tenant.client, model="hanging", sim={"hang": "headers"})
    h.upstream.wait(channel="quiet", active=1)
    until(lambda: h.held_nano_usd(tenant) == EACH, what="its hold written")
    call.leave()
    h.upstream.wait(cancelled=1, active=0)
    (row,) = until(lambda: h.rows(tenant), what="the row")
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert (row["cost_nano_usd"], row["unit_type"], row["unit_count"]) == (0, "image", 0)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_balance_for_so_many_images_admits_exactly_so_many(h: House) -> None:
    """Twenty at once, each for two images, with money for seven of them."""
    tenant = h.tenant(nano_usd=7 * 2 * EACH + EACH)

    def one(_: int) -> Reply:
        return generate(tenant.client, n=2, sim={"pause": "headers"})

    with ThreadPoolExecutor(20) as pool:
        replies = [pool.submit(one, number) for number in range(20)]
        until(lambda: sum(reply.done() for reply in replies) == 13, what="13 refusals")
        h.upstream.wait(paused=7)
        h.upstream.resume()
    statuses = [reply.result().status for reply in replies]
    assert sorted(statuses) == [200] * 7 + [402] * 13
    assert tenant.client.remaining_nano_usd() == EACH
    assert h.upstream.stats()["requests"] == 7
    assert h.verify()["ok"]


def test_killed_process_leaves_no_hold_and_charges_nothing(
    database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, **pictures.SETTINGS) as h:
        tenant = h.tenant()
        sim = {"hang": "headers"}
        calls = [begin(tenant.client, model="hanging", n=3, sim=sim) for _ in range(4)]
        h.upstream.wait(channel="quiet", active=4)
        until(lambda: h.held_nano_usd(tenant) == 4 * 3 * EACH, what="their holds written")
        h.gateway.kill()
        for call in calls:
            call.leave()
        h.gateway.close()
        h.start()
        until(lambda: len(h.rows(tenant)) == 4, what="the rows")
        for row in h.rows(tenant):
            assert (row["status"], row["error_code"]) == ("interrupted", "gateway_restarted")
            assert (row["unit_type"], row["unit_count"], row["cost_nano_usd"]) == ("image", 0, 0)
        assert h.held_nano_usd(tenant) == 0
        assert h.balance_nano_usd(tenant) == NANO_PER_USD
        assert h.verify()["counts"]["open_holds"] == 0
