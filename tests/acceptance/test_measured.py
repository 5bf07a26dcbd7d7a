"""Transcriptions, edits of images and rerank on real processes: what is sent on, answered, paid."""

import struct
from typing import Any

import pytest
from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from gw.api.logs.detail import ESTIMATES
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.tenants import Tenant
from tests.acceptance.pictures import EACH, picture
from tests.support.forms import TYPE, form, part
from tests.support.rows import each

SOUND = {"endpoint_type": "audio_transcriptions"}
SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            channel(
                name,
                priority=place,
                protocols=[
                    "images",
                    "transcriptions",
                    "rerank",
                    "moderations",
                    "chat",
                    "responses",
                ],
            )
            for place, name in enumerate(("one", "two"), start=1)
        )
    ],
    "models": [
        model("sim-model", "one"), picture("picture", {"id": "one", "as": "vendor/picture"}),
        model("whisper", "one", "two", **SOUND, price={"per_second": "0.0001"}),
        model("scribe", {"id": "one", "as": "vendor/scribe"}, **SOUND,
            price={"input": "3", "output": "10", "audio_input": "6"}),
        model("flat", "one", **SOUND, price={"per_call": "0.02"}),
        model("guard", {"id": "one", "as": "vendor/guard"}, endpoint_type="moderations", price={}),
        model("rank", "one", endpoint_type="rerank", price={"per_call": "0.002"}),
        model("rank-tokens", "one", endpoint_type="rerank", price={"input": "0.05"})],
}  # fmt: skip
SECONDS = 3
NO_USAGE = {"extra_body": {"sim": '{"no_usage": true, "events": 7}'}}
WAVE = (
    b"RIFF\0\0\0\0WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    + b"data\0\0\0\0"
    + bytes(16000 * SECONDS)
)


# MP3 of 128 kbit/s: 400 frames of 1,152 samples.
FRAMES = (b"\xff\xfb\x90\0" + bytes(413)) * 400


def transcribe(sdk: OpenAI, model_id: str, file: bytes = WAVE, **more: Any) -> Any:
    create: Any = sdk.audio.transcriptions.with_raw_response.create
    return create(model=model_id, file=("a.wav", file), **more)


def spent(tenant: Tenant) -> int:
    return NANO_PER_USD - tenant.client.remaining_nano_usd()


@pytest.mark.parametrize(
    ("model_id", "requested", "cost", "units"),
    [
        # What the response states: seconds, in a member of its own or as usage.
        ("whisper", {"extra_body": {"sim": '{"events": 7}'}}, 700_000, 7),
        ("whisper", {"response_format": "verbose_json", **NO_USAGE}, 725_000, 8),
        ("whisper", {"response_format": "srt", "extra_body": {"sim": '{"events": 7}'}}, 750_000, 8),
        # What nobody states: the recording's own length.
        ("whisper", {"response_format": "text"}, 300_000, 3),
        ("whisper", {"file": FRAMES, **NO_USAGE}, 1_044_900, 11),
        ("whisper", {"file": b"no sound" * 1_000, **NO_USAGE}, 400_000, 4),
        ("flat", {}, 20_000_000, 1),
    ],
)  # fmt: skip
def test_recording_costs_its_length(
    h: Deployment, tenant: Tenant, sdk: OpenAI, model_id: str, requested: Any, cost: int, units: int
) -> None:
    response = transcribe(sdk, model_id, **requested)
    assert response.text.strip()
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["protocol"]) == ("success", model_id, "transcriptions")
    assert (row["cost_nano_usd"], row["unit_type"], row["unit_count"]) == (cost, "audio", units)
    assert spent(tenant) == cost
    assert h.upstream.last_request()["path"] == "/v1/audio/transcriptions"


MP3 = b"ID3" + bytes(6_000 - 3)  # of 128 kbit/s it would be less than half a second


@each(
    "model_id, requested, cost, units",
    [
        # The length is asked for within JSON.
        ("whisper", {"extra_body": {"sim": '{"events": 2}'}}, 200_000, 2),
        ("whisper", NO_USAGE, 725_000, 8),
    ],
)
def test_plain_text_costs_the_length_that_its_upstream_states(
    h: Deployment, tenant: Tenant, sdk: OpenAI, model_id: str, requested: Any, cost: int, units: int
) -> None:
    response = transcribe(sdk, model_id, MP3, response_format="text", **requested)
    assert response.headers["content-type"].startswith("text/plain")
    assert response.text.endswith("\n")
    assert not response.text.startswith("{")
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["cost_nano_usd"], row["unit_count"]) == (cost, units)
    assert 'name="response_format"\r\n\r\nverbose_json' in h.upstream.last_request()["body"]


def test_recording_costs_tokens_and_the_model_has_the_upstreams_name(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    response = transcribe(
        sdk, "scribe", extra_body={"sim": '{"usage": {"input": 100, "output": 20}}'}
    )
    assert response.parse().usage.input_tokens == 100
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["input_tokens"], row["output_tokens"]) == (100, 20)
    assert row["cost_nano_usd"] == spent(tenant) == 100 * 6000 + 20 * 10000
    assert "vendor/scribe" in h.upstream.last_request()["body"]


@each(
    "parts, param",
    [
        ([part("model", b"whisper")], "file"),
        ([part("file", b"", "a.wav"), part("model", b"whisper")], "file"),
        ([part("file", WAVE, "a.wav")], "model"),
        ([part("file", WAVE, "a.wav"), part("model", b"nothing")], "model"),
        ([part("file", WAVE, "a.wav"), part("model", b"whisper"), part("stream", b"true")],
         "stream"),
        ([part("file", WAVE, "a.wav"), part("model", b"whisper"), part("response_format", b"x")],
         "response_format"),
    ],
)  # fmt: skip
def test_bad_part_is_named_and_nothing_is_charged(
    tenant: Tenant, parts: list[bytes], param: str
) -> None:
    reply = tenant.client.send(
        "POST", "/v1/audio/transcriptions", form(*parts), headers={"Content-Type": TYPE}
    )
    assert (reply.status, reply.json["error"]["param"]) == (400, param), reply.body
    assert spent(tenant) == 0


def test_owner_of_a_call_reads_why_it_costs_what_nobody_states(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    trace = transcribe(sdk, "whisper", FRAMES, **NO_USAGE).headers["x-gateway-trace"]
    row = h.row(trace)
    reply = tenant.client.get(f"/v1/logs/{row['id']}")
    facts = {pair["k"]: pair["v"] for pair in reply.json["gateway"]}
    assert facts["usage"] == ESTIMATES["request"]
    assert (facts["units_milliseconds"], facts["cost_usd"]) == ("10449", "0.0010449")


def test_library_edits_a_picture_and_pays_for_each(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    response = sdk.images.with_raw_response.edit(
        model="picture", image=[("a.png", WAVE), ("b.png", WAVE)], prompt="a boat", n=2
    )
    made = response.parse().data
    assert made is not None
    assert len({one.url for one in made}) == 2
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["protocol"], row["unit_count"], row["cost_nano_usd"]) == ("images", 2, 2 * EACH)
    request = h.upstream.last_request()
    assert request["path"] == "/v1/images/edits"
    assert "vendor/picture" in request["body"]
    refused = sdk.with_options(max_retries=0).images
    with pytest.raises(Exception, match="prompt") as raised:
        refused.edit(model="picture", image=("a.png", WAVE), prompt=" ")
    assert raised.value.status_code == 400  # type: ignore[attr-defined]
    assert spent(tenant) == 2 * EACH


@each(
    "model_id, sim, cost",
    [
        ("rank", {"events": 3}, 6_000_000),
        ("rank", {"no_usage": True}, 2_000_000),
        ("rank-tokens", {"usage": {"input": 1000}}, 50_000),
    ],
)
def test_documents_are_ranked(h: Deployment, model_id: str, sim: dict[str, Any], cost: int) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    body = {"model": model_id, "query": "dams", "documents": ["a", {"text": "b"}], "top_n": 1}
    reply = tenant.client.send("POST", "/v1/rerank", {**body, "sim": sim})
    assert [one["index"] for one in reply.json["results"]] == [0]
    row = h.row(reply.headers["x-gateway-trace"])
    assert (row["status"], row["protocol"], row["unit_type"]) == ("success", "rerank", "search")
    assert row["cost_nano_usd"] == spent(tenant) == cost
    odds: list[dict[str, Any]] = [
        {"query": " "},
        {"documents": []},
        {"documents": "a"},
        {"top_n": 0},
    ]
    for odd in odds:
        refused = tenant.client.send("POST", "/v1/rerank", {**body, **odd})
        assert (refused.status, refused.json["error"]["param"]) == (400, next(iter(odd)))
    assert spent(tenant) == cost


def test_moderations_are_free_at_any_balance(h: Deployment, sdk: OpenAI) -> None:
    for given in ({"model": "guard"}, {}):
        create: Any = sdk.moderations.with_raw_response.create
        response = create(input=["harm", "peace"], **given)
        assert [one.flagged for one in response.parse().results] == [True, False]
        row = h.row(response.headers["x-gateway-trace"])
        assert (row["status"], row["model"], row["cost_nano_usd"]) == ("success", "guard", 0)
    assert '"vendor/guard"' in h.upstream.last_request()["body"]
    empty = h.tenant(nano_usd=0)
    body = {"input": "peace"}
    assert empty.client.send("POST", "/v1/moderations", body).status == 200
    refused = empty.client.send("POST", "/v1/moderations", {"input": 1})
    assert (refused.status, refused.json["error"]["param"]) == (400, "input")
    h.upstream.fault("one", status=422)
    assert empty.client.send("POST", "/v1/moderations", body).status == 422


def test_conversation_is_compacted_by_a_channel_and_goes_on(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    sim = {"sim": {"usage": {"input": 1000, "output": 20}}}
    response = sdk.responses.with_raw_response.compact(
        model="sim-model", input="Hello", instructions="Short.", extra_body=sim
    )
    compacted = response.parse()
    assert [one.type for one in compacted.output] == ["compaction"]
    assert h.upstream.last_request()["path"] == "/v1/responses/compact"
    assert "max_output_tokens" not in h.upstream.last_request()["body"]
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["status"], row["protocol"]) == ("success", "responses")
    assert row["cost_nano_usd"] == spent(tenant) == 1000 * 1000 + 20 * 10000
    items: Any = [*(one.to_dict() for one in compacted.output), {"role": "user", "content": "Go"}]
    assert sdk.responses.create(model="sim-model", input=items).output_text
    assert compacted.output[0].to_dict()["encrypted_content"] in h.upstream.last_request()["body"]
    body = {"model": "sim-model", "input": "Hello", "stream": True}
    assert tenant.client.send("POST", "/v1/responses/compact", body).status == 400
