"""Embeddings on real processes: in both forms, by the official libraries, to the last token."""

import base64
import struct
from typing import Any

import pytest
from google import genai
from google.genai import types
from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from channels.json.weight import COUNTED_BYTES_MAX
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

VECTORS: dict[str, Any] = {"endpoint_type": "embeddings", "price": {"input": "0.02"}}
TOKEN = 20  # nano-USD
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", priority=1, protocols=["chat", "embeddings", "native"]),
        channel("two", priority=2, protocols=["embeddings", "native"], on_429="next"),
        channel("busy", priority=1, protocols=["embeddings"], on_429="next"),
        channel("mute", protocols=["embeddings"]),
    ],
    "models": [
        model("sim-model", "one"),
        model("vectors", {"id": "one", "as": "vendor/vectors"}, "two", **VECTORS),
        model("wanted", "busy", "two", **VECTORS),
        model("slow", "mute", **VECTORS),
        model("only-chat", "one", **{**VECTORS, "callable": False}),
    ],
    "timeouts": {"embeddings": 5},
}
PATH = "/v1/embeddings"
NATIVE = "/v1beta/models/vectors"
CONTENT = {"parts": [{"text": "Otters build dams."}]}


def spent(tenant: Tenant) -> int:
    return NANO_PER_USD - tenant.client.remaining_nano_usd()


def test_library_gets_vectors_in_both_forms(h: Deployment, tenant: Tenant, sdk: OpenAI) -> None:
    usage: Any = {"sim": {"usage": {"input": 1000}}}
    create: Any = sdk.embeddings.with_raw_response.create
    packed = create(model="vectors", input=["otters", "dams"], extra_body=usage)
    floats = create(
        model="vectors", input=["otters", "dams"], encoding_format="float", extra_body=usage
    )
    values = [[one.embedding for one in made.parse().data] for made in (packed, floats)]
    assert values[0] == values[1]
    assert '"encoding_format":"base64"' in h.upstream.requests()[-2]["body"].replace(" ", "")
    assert '"vendor/vectors"' in h.upstream.last_request()["body"]
    assert h.upstream.last_request()["path"] == PATH
    for made in (packed, floats):
        row = h.row(made.headers["x-gateway-trace"])
        assert (row["status"], row["model"], row["protocol"]) == (
            "success",
            "vectors",
            "embeddings",
        )
        assert (row["input_tokens"], row["output_tokens"], row["unit_type"]) == (1000, 0, None)
        assert row["cost_nano_usd"] == 1000 * TOKEN
    assert spent(tenant) == 2000 * TOKEN
    assert h.held_nano_usd(tenant) == 0


@each(
    "given, estimate",
    [("x" * 400, 101), (["x" * 198, "y" * 198], 101), ([1, 2, 3], 3), ([[1, 2], [3]], 3)],
)
def test_input_that_nobody_counts_costs_its_estimate(
    h: Deployment, given: Any, estimate: int
) -> None:
    tenant = h.tenant()
    body = {"model": "vectors", "input": given, "dimensions": 8, "sim": {"no_usage": True}}
    reply = tenant.client.send("POST", PATH, body)
    assert [len(one["embedding"]) for one in reply.json["data"]] == [8] * len(reply.json["data"])
    assert spent(tenant) == estimate * TOKEN
    shown = tenant.client.get(f"/v1/logs/{h.row(reply.trace)['id']}").json
    assert {"k": "dimensions", "v": "8"} in shown["request"]


def test_google_library_gets_vectors_of_native_channels(h: Deployment, tenant: Tenant) -> None:
    client = genai.Client(
        api_key=tenant.key, http_options=types.HttpOptions(base_url=h.gateway.url)
    )
    made = client.models.embed_content(
        model="vectors",
        contents=["otters", "dams"],
        config=types.EmbedContentConfig(output_dimensionality=3),
    )
    assert made.embeddings is not None
    assert [len(one.values or ()) for one in made.embeddings] == [3, 3]
    request = h.upstream.last_request()
    assert request["path"] == "/v1beta/models/vendor%2Fvectors:batchEmbedContents"
    assert request["body"].count("models/vendor/vectors") == 2
    (row,) = h.rows(tenant)
    assert (row["status"], row["protocol"]) == ("success", "native_embeddings")
    assert row["cost_nano_usd"] == spent(tenant) == row["input_tokens"] * TOKEN > 0


def test_native_form_of_one_content_and_its_errors(h: Deployment, tenant: Tenant) -> None:
    body = {"content": CONTENT, "sim": {"usage": {"input": 50}}}
    reply = tenant.client.send("POST", f"{NATIVE}:embedContent", body)
    assert len(reply.json["embedding"]["values"]) == 4
    assert spent(tenant) == 50 * TOKEN
    refused = tenant.client.send("POST", f"{NATIVE}:embedContent", {"content": 7})
    assert (refused.status, refused.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    for named in ("sim-model", "nothing", "only-chat"):
        unknown = tenant.client.send("POST", f"/v1beta/models/{named}:embedContent", body)
        assert (unknown.status, unknown.json["error"]["status"]) == (404, "NOT_FOUND")
    listed = tenant.client.get("/v1beta/models/vectors").json["supportedGenerationMethods"]
    assert listed == ["embedContent", "batchEmbedContents"]


@each("named", ["sim-model", "text-embedding-3-small", "only-chat"])
def test_model_that_is_not_configured_is_not_found(tenant: Tenant, named: str) -> None:
    reply = tenant.client.send("POST", PATH, {"model": named, "input": "a"})
    assert (reply.status, reply.code) == (404, "model_not_found")
    assert spent(tenant) == 0


BROKEN: list[dict[str, Any]] = [
    {"status": 500},
    {"refuse": True},
    {"malformed": "json"},
    {"cut_after_bytes": 20},
    {"status": 401},
]


@each("directive", BROKEN)
def test_failed_channel_is_followed_by_the_next_as_on_chat(
    h: Deployment, directive: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **directive)
    body = {"model": "vectors", "input": "a", "sim": {"usage": {"input": 10}}}
    reply = tenant.client.send("POST", PATH, body)
    assert reply.status == 200, reply
    assert h.upstream.requested("one", "two") == [1, 1]
    assert spent(tenant) == 10 * TOKEN
    assert len(h.row(reply.trace)["attempts"]) == 1


def test_refusal_is_the_clients_and_a_limit_hops_where_the_channel_says_so(h: Deployment) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("busy", status=429, headers={"Retry-After": "60"})
    body = {"model": "wanted", "input": "a"}
    reply = tenant.client.send("POST", PATH, body)
    assert (reply.status, h.upstream.requested("busy", "two")) == (200, [1, 1])
    h.upstream.fault("two", status=400)
    refused = tenant.client.send("POST", PATH, body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert set(refused.json["error"]) == {"message", "type", "code"}


def test_silent_channel_is_given_up_in_time(h: Deployment) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("mute", hang="headers")
    reply = tenant.client.send("POST", PATH, {"model": "slow", "input": "a"})
    assert (reply.status, reply.code) == (504, "upstream_timeout")
    assert (spent(tenant), h.held_nano_usd(tenant)) == (0, 0)


def test_long_input_and_long_response_are_read_beside_the_loop(
    h: Deployment, tenant: Tenant
) -> None:
    body = {"model": "vectors", "input": [[n % 1000 for n in range(20)]] * 2000, "dimensions": 200}
    reply = tenant.client.send("POST", PATH, {**body, "sim": {"usage": {"input": 40_000}}})
    assert len(reply.body) > COUNTED_BYTES_MAX
    assert len(reply.json["data"]) == 2000
    assert spent(tenant) == 40_000 * TOKEN
    packed = tenant.client.send("POST", PATH, {**body, "encoding_format": "base64"})
    (first, *_) = packed.json["data"]
    numbers = struct.unpack("<200f", base64.b64decode(first["embedding"]))
    assert numbers == pytest.approx(reply.json["data"][0]["embedding"])


def test_what_no_balance_covers_is_not_begun(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=100)
    body = {"model": "vectors", "input": "x" * 4000}
    assert tenant.client.send("POST", PATH, body).status == 402
    doubted = {**body, "input": "x", "sim": {"usage": {"input": 10**9}}}
    assert tenant.client.send("POST", PATH, doubted).status == 200
    assert spent(h.tenant()) == 0
    assert tenant.client.remaining_nano_usd() == 100 - TOKEN
