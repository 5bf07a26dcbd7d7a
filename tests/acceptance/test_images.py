"""`POST /v1/images/generations` on real processes: what is asked, sent on, answered and paid."""

import json
from datetime import timedelta

from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.upstream import key_of
from loadtests.rig.waiting import until
from tests.acceptance import pictures
from tests.acceptance.pictures import EACH, PATH, begin, generate, refusal

SETTINGS = pictures.SETTINGS


def test_library_gets_its_images_and_pays_for_each(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    response = sdk.images.with_raw_response.generate(
        model="picture", prompt="a boat", n=3, size="1024x1024"
    )
    made = response.parse().data
    assert made is not None
    urls = [image.url for image in made]
    assert len(set(urls)) == 3
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["protocol"]) == ("success", "picture", "images")
    assert (row["unit_count"], row["unit_type"], row["cost_nano_usd"]) == (3, "image", 3 * EACH)
    assert row["result_urls"] == urls
    assert row["result_expires_at"] - row["created_at"] <= timedelta(hours=24)
    assert row["result_expires_at"] - row["created_at"] > timedelta(hours=23)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD - 3 * EACH


def test_bytes_go_to_the_upstream_and_back_unchanged(h: Deployment, tenant: Tenant) -> None:
    message = (
        b'{ "data" : [ {"url":"https:\\/\\/p.example/1", "extra": 1.50} ],"usage":{"n":1e0} }\n'
    )
    h.upstream.fault("one", body=message.decode(), headers={"Content-Type": "text/plain"})
    raw = (
        b'{"seed" : 7, "model":"renamed","prompt":"a \\u0041 \xc3\xbc", "size":"2K",'
        b' "watermark": false, "image": ["https://a.example/1"]}'
    )
    reply = generate(tenant.client, raw, {"Idempotency-Key": "once", "X-Custom": "mine"})
    assert (reply.status, reply.body) == (200, message)
    sent = h.upstream.last_request()
    assert sent["path"] == PATH
    assert sent["body"].encode() == raw.replace(b'"renamed"', '"vendor/ünlike"'.encode())
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    assert headers["authorization"] == f"Bearer {key_of('one')}"
    assert {"idempotency-key", "x-custom", "x-api-key"}.isdisjoint(headers)
    assert tenant.key not in json.dumps(sent)


def test_size_without_pixels_is_refused_where_the_price_is_by_the_area(
    h: Deployment, tenant: Tenant
) -> None:
    reply = generate(tenant.client, model="area", size="2K")
    assert refusal(reply) == (400, "invalid_request_error", "invalid_request", "size")
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_type"]) == ("rejected", 0, "image")
    assert h.upstream.stats()["requests"] == 0


def test_error_of_a_model_of_other_endpoints_says_where_it_is_served(
    h: Deployment, tenant: Tenant
) -> None:
    reply = generate(tenant.client, model="sim-model")
    assert refusal(reply) == (503, "server_error", "no_channel_available", "model")
    assert b" It is served on: chat_completions, messages." in reply.body


def test_call_log_tells_of_images_made_and_not_made(h: Deployment, tenant: Tenant) -> None:
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


def test_client_that_leaves_cancels_the_upstream_and_pays_nothing(
    h: Deployment, tenant: Tenant
) -> None:
    call = begin(tenant.client, model="hanging", sim={"hang": "headers"})
    h.upstream.wait(channel="quiet", active=1)
    until(lambda: h.held_nano_usd(tenant) == EACH, what="its hold written")
    call.leave()
    h.upstream.wait(cancelled=1, active=0)
    (row,) = until(lambda: h.rows(tenant), what="the row")
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert (row["cost_nano_usd"], row["unit_type"], row["unit_count"]) == (0, "image", 0)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD
