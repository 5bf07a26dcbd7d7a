"""`POST /v1/audio/speech` on real processes: what is spoken, by whom, and what it costs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import av
import pytest
from openai import OpenAI

from tests.acceptance import sounds
from tests.acceptance.sounds import CHARACTER, SPEECH, clone, speak, spent_nano_usd
from tests.support.client import NANO_PER_USD
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until

SETTINGS = sounds.HASTY
BAD = "invalid_request_error"


@pytest.fixture
def library(h: House, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client


def test_library_gets_a_recording_that_plays_and_pays_by_the_character(
    h: House, tenant: Tenant, library: OpenAI
) -> None:
    text = "Grüße, 世界 👋"
    answer = library.audio.speech.with_raw_response.create(
        model="tts", input=text, voice="preset-warm", response_format="wav", speed=1.5
    )
    assert answer.headers["content-type"] == "audio/wav"
    with av.open(io.BytesIO(answer.parse().content)) as recording:
        assert recording.streams.audio[0].codec_context.sample_rate > 0
    row = h.row(answer.headers["x-gateway-trace"])
    assert (row["status"], row["protocol"], row["unit_type"]) == ("success", "speech", "audio")
    assert (row["unit_count"], row["cost_nano_usd"]) == (len(text), len(text) * CHARACTER)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD - len(text) * CHARACTER
    sent = h.upstream.last_request()
    assert sent["path"] == SPEECH
    assert '"speed":1.5' in sent["body"].replace(" ", "")


def test_library_streams_a_recording(library: OpenAI, tmp_path: Any) -> None:
    with library.audio.speech.with_streaming_response.create(
        model="tts", input="Hello there", voice="preset-warm"
    ) as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        answer.stream_to_file(tmp_path / "hello.mp3")
    with av.open(str(tmp_path / "hello.mp3")) as recording:
        assert recording.streams.audio[0].codec_context.name.startswith("mp3")


def test_hexadecimal_digits_of_an_upstream_become_the_recording(tenant: Tenant) -> None:
    reply = speak(tenant.client, model="tts-hex", response_format="flac")
    assert (reply.status, reply.headers["content-type"]) == (200, "audio/flac")
    assert reply.body.startswith(b"fLaC")


@pytest.mark.parametrize(
    "asked",
    [
        {"input": ""},
        {"input": 5},
        {"input": "x" * 10_001},
        {"voice": ""},
        {"voice": None},
        {"response_format": "ogg"},
        {"speed": 5},
        {"speed": "1"},
        {"async": "yes"},
        {"model": 5},
        {"voice": "voc_" + "0" * 32},
    ],
)
def test_bad_field_is_refused_before_anything_is_held(
    h: House, tenant: Tenant, asked: dict[str, Any]
) -> None:
    reply = speak(tenant.client, **asked)
    assert reply.refusal == (400, BAD, "invalid_request")
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_type"]) == ("rejected", 0, "audio")
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("nothing", (400, BAD, "model_not_found")),
        ("sim-model", (503, "server_error", "no_channel_available")),
        ("song", (503, "server_error", "no_channel_available")),
    ],
)
def test_model_that_does_not_speak(
    h: House, tenant: Tenant, model: str, told: tuple[int, str, str]
) -> None:
    assert speak(tenant.client, model=model).refusal == told
    assert h.held_nano_usd(tenant) == 0


def test_keys_that_may_not_speak(h: House, tenant: Tenant) -> None:
    some = h.another(tenant, allowed_models=("song",))
    assert speak(some.client).refusal == (400, BAD, "model_not_allowed")
    agent = h.another(tenant, kind="agent", agent_id="agent_x")
    assert speak(agent.client).refusal == (403, "permission_error", "permission_denied")
    poor = h.tenant(nano_usd=CHARACTER)
    assert speak(poor.client).refusal == (402, "insufficient_quota", "quota_exceeded")
    assert speak(poor.client, input="x").status == 200
    limited = h.tenant(rpm=1)
    assert speak(limited.client).headers["x-ratelimit-remaining-requests"] == "0"
    assert speak(limited.client).refusal[2] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 504},
        {"refuse": True},
        {"hang": None, "cut_after_bytes": 0},
        {"cut_after_bytes": 300},
    ],
    ids=["500", "504", "refused", "lost before", "cut within"],
)
def test_another_channel_speaks_when_one_fails(
    h: House, tenant: Tenant, fault: dict[str, Any]
) -> None:
    h.upstream.fault("one", **{name: value for name, value in fault.items() if value is not None})
    reply = speak(tenant.client)
    assert reply.status == 200
    assert h.upstream.requested("one", "two") == [1, 1]
    assert len(h.row(reply.trace)["attempts"]) == 1


@pytest.mark.parametrize(
    ("fault", "told", "asked", "status"),
    [
        ({"status": 422}, (422, BAD, "invalid_request"), [1, 0], "error"),
        ({"status": 429}, (429, "rate_limit_error", "rate_limit_exceeded"), [1, 0], "error"),
        ({"status": 503}, (503, "api_error", "upstream_error"), [1, 1], "error"),
        ({"malformed": "html"}, (502, "api_error", "upstream_error"), [1, 0], "interrupted"),
        ({"refuse": True}, (502, "api_error", "upstream_unreachable"), [1, 1], "error"),
        ({"hang": "headers"}, (504, "api_error", "upstream_timeout"), [1, 0], "interrupted"),
    ],
    ids=["refused", "too many", "both fail", "no sound", "none is there", "silent"],
)
def test_failure_is_told_and_costs_nothing(
    h: House,
    tenant: Tenant,
    fault: dict[str, Any],
    told: tuple[int, str, str],
    asked: list[int],
    status: str,
) -> None:
    h.upstream.fault("one", **fault)
    h.upstream.fault("two", **fault)
    reply = speak(tenant.client)
    assert reply.refusal == told
    assert h.upstream.requested("one", "two") == asked
    row = h.row(reply.trace)
    assert (row["status"], row["unit_count"], row["error_code"]) == (status, 0, told[2])
    assert spent_nano_usd(h, tenant) == 0


def test_client_that_leaves_pays_nothing(h: House, tenant: Tenant) -> None:
    h.upstream.fault("quiet", hang="headers")
    call = tenant.client.begin(
        "POST", SPEECH, {"model": "tts-quiet", "input": "Hello", "voice": "v"}
    )
    h.upstream.wait(active=1)
    call.leave()
    until(
        lambda: [row["error_code"] for row in h.rows(tenant)].count("client_disconnected") >= 1,
        what="the row",
    )
    assert {row["status"] for row in h.rows(tenant)} == {"interrupted"}
    assert spent_nano_usd(h, tenant) == 0


def test_recording_is_replayed_with_its_type_unless_it_is_too_large(
    h: House, tenant: Tenant
) -> None:
    key = {"Idempotency-Key": "once"}
    first, again = (speak(tenant.client, key, response_format="opus") for _ in range(2))
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.body, again.headers["content-type"]) == (first.body, "audio/ogg")
    assert speak(tenant.client, key).refusal == (409, BAD, "idempotency_key_reuse")
    large = {"Idempotency-Key": "large"}
    text = "Hello there, and a good day to you. " * 20
    replies = [speak(tenant.client, large, input=text, response_format="wav") for _ in range(2)]
    assert (replies[0].status, replies[1].refusal[2]) == (200, "idempotency_response_not_cached")
    assert h.upstream.requested("one") == [2]


def test_cloned_voice_is_spoken_by_the_channel_that_knows_it(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", status=500)
    voice = clone(tenant.client).json["id"]
    h.upstream.reset()
    reply = speak(tenant.client, voice=voice)
    assert reply.status == 200
    assert h.upstream.requested("one", "two") == [0, 1]
    assert voice not in h.upstream.last_request()["body"]
    elsewhere = speak(tenant.client, model="tts-hex", voice=voice)
    assert elsewhere.refusal == (400, BAD, "invalid_request")
    stranger = h.tenant()
    assert speak(stranger.client, voice=voice).refusal == (400, BAD, "invalid_request")
    assert h.held_nano_usd(stranger) == 0
