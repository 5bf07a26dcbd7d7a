"""Speech, voices, scripts and songs on real processes: what is made plays, and what it costs.

What holds for all of them is in `test_media.py`.
"""

import io
from typing import Any

import av
from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.client import fetch
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from tests.acceptance import sounds
from tests.acceptance.sounds import (
    CHARACTER,
    MUSIC,
    RECORDING,
    SCRIPT,
    SONG,
    SPEECH,
    VOICE,
    VOICES,
    ask,
    clone,
    compose,
    ended,
    extract,
    speak,
)
from tests.support.rows import each

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"
ASYNC: dict[str, Any] = {"async": True}


def test_library_gets_a_recording_that_plays_and_pays_by_the_character(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    text = "Grüße, 世界 👋"
    response = sdk.audio.speech.with_raw_response.create(
        model="tts", input=text, voice="preset-warm", response_format="wav", speed=1.5
    )
    assert response.headers["content-type"] == "audio/wav"
    with av.open(io.BytesIO(response.parse().content)) as recording:
        assert recording.streams.audio[0].codec_context.sample_rate > 0
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["status"], row["protocol"], row["unit_type"]) == ("success", "speech", "audio")
    assert (row["unit_count"], row["cost_nano_usd"]) == (len(text), len(text) * CHARACTER)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD - len(text) * CHARACTER
    sent = h.upstream.last_request()
    assert sent["path"] == SPEECH
    assert '"speed":1.5' in sent["body"].replace(" ", "")


def test_recording_is_replayed_with_its_type_unless_it_is_too_large(
    h: Deployment, tenant: Tenant
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


def test_cloned_voice_is_spoken_by_the_channel_that_knows_it(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("one", status=500)
    voice = clone(tenant.client).json["id"]
    h.upstream.reset()
    reply = speak(tenant.client, voice=voice)
    assert reply.status == 200
    assert h.upstream.requested("one", "two") == [0, 1]
    assert voice not in h.upstream.last_request()["body"]
    h.upstream.fault("two", task_seconds=0.1)
    task = speak(tenant.client, voice=voice, **ASYNC).json["id"]
    assert ended(tenant.client, SPEECH, task)["status"] == "succeeded"
    assert h.upstream.requested("one") == [0]
    elsewhere = speak(tenant.client, model="tts-hex", voice=voice)
    assert elsewhere.refusal == (400, BAD, "invalid_request")
    stranger = h.tenant()
    assert speak(stranger.client, voice=voice).refusal == (400, BAD, "invalid_request")
    assert h.held_nano_usd(stranger) == 0


def test_recording_is_made_paid_for_and_plays(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    text = "Grüße " * 2000
    begun = speak(tenant.client, **ASYNC, input=text)
    assert list(begun.json) == ["id", "status", "model", "created_at"]
    assert begun.json["status"] == "pending"
    assert h.held_nano_usd(tenant) == len(text) * CHARACTER
    polled = tenant.client.get(f"{SPEECH}/{begun.json['id']}").json
    assert list(polled) == ["id", "status", "model", "created_at", "characters"]
    assert (polled["status"], polled["characters"]) == ("pending", len(text))
    h.upstream.finish()
    done = ended(tenant.client, SPEECH, begun.json["id"])
    assert done["status"] == "succeeded"
    assert isinstance(done["expires_at"], int)
    with av.open(io.BytesIO(fetch(done["audio_url"]).body)) as recording:
        assert recording.streams.audio
    row = h.row(begun.trace)
    assert (row["unit_type"], row["unit_count"]) == ("audio", len(text))
    assert row["result_urls"] == [done["audio_url"]]
    assert h.spent_nano_usd(tenant) == len(text) * CHARACTER
    assert tenant.client.get(f"{SPEECH}?status=succeeded").json == {"data": [done]}
    assert tenant.client.get(f"{SPEECH}?status=pending").json == {"data": []}
    assert tenant.client.get(f"{SPEECH}?status=queued").refusal == (400, BAD, "invalid_request")


def own(tenant: Tenant) -> list[str]:
    """The names of the account's own voices, as they are listed."""
    voices = tenant.client.get(VOICES).json["voices"]
    return [voice["name"] for voice in voices if voice["kind"] == "cloned"]


def test_voice_is_cloned_for_its_price_and_listed_after_the_presets(
    h: Deployment, tenant: Tenant
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


def test_voice_that_the_database_will_not_take_yet_is_kept_and_paid_for_once_it_does(
    h: Deployment, tenant: Tenant
) -> None:
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE voices IN ACCESS EXCLUSIVE MODE")
        body = {"model": "clone", "name": "Late", "audio_url": RECORDING}
        call = tenant.client.begin("POST", VOICES, body)
        h.event("voice_not_stored", channel="one")
    assert call.response().status == 200
    assert h.upstream.requested("one", "two") == [1, 0]
    assert (own(tenant), h.spent_nano_usd(tenant)) == (["Late"], VOICE)


@each("later", [False, True])
def test_script_comes_whole_and_is_paid_for_by_the_call(h: Deployment, later: bool) -> None:
    h.upstream.reset()
    tenant = h.tenant()
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
    assert h.spent_nano_usd(tenant) == SCRIPT
    found = tenant.client.get("/v1/logs?unit_type=transcript").json["data"]
    assert tenant.client.get(f"/v1/logs/{found[0]['id']}").json["kind"] == "audio"


def test_script_that_is_not_there_in_time_is_a_504_and_one_that_fails_a_502(
    h: Deployment, tenant: Tenant
) -> None:
    failed = {"later": True, "task_seconds": 0.3, "task_error": {"message": "No speech."}}
    h.upstream.fault("one", **failed)
    reply = ask(tenant.client, "script")
    assert reply.refusal == (502, "api_error", "upstream_error")
    assert reply.error["message"] == "No speech."
    assert h.row(reply.trace)["status"] == "error"
    h.upstream.fault("one", later=True, task_seconds=100)
    late = ask(tenant.client, "script")
    assert late.refusal == (504, "api_error", "upstream_timeout")
    assert h.row(late.trace)["status"] == "interrupted"
    assert h.spent_nano_usd(tenant) == 0


def test_songs_are_made_paid_for_and_play(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=3600)
    begun = compose(tenant.client, lyrics="La la", title="Boat", tags="slow", prompt="unused")
    assert list(begun.json) == ["id", "status", "model", "created_at"]
    assert (begun.json["status"], begun.json["model"]) == ("queued", "song")
    task_id = begun.json["id"]
    assert h.held_nano_usd(tenant) == SONG
    polled = tenant.client.get(f"{MUSIC}/{task_id}").json
    assert (polled["status"], list(polled)) == ("processing", list(begun.json))
    sent = next(one for one in h.upstream.requests() if one["method"] == "POST")
    assert '"lyrics"' in sent["body"]
    assert '"prompt"' not in sent["body"]
    h.upstream.finish()
    done = ended(tenant.client, MUSIC, task_id)
    assert done["status"] == "succeeded"
    names = ["clip_id", "title", "duration_sec", "audio_url", "image_url", "lyrics"]
    assert [list(track) for track in done["tracks"]] == [names] * 2
    with av.open(io.BytesIO(fetch(done["tracks"][0]["audio_url"]).body)) as recording:
        assert recording.streams.audio[0].codec_context.sample_rate > 0
    row = h.row(begun.trace)
    assert (row["status"], row["unit_type"], row["unit_count"]) == ("success", "music", 1)
    assert (row["cost_nano_usd"], row["task_id"]) == (SONG, task_id)
    assert row["result_urls"] == [track["audio_url"] for track in done["tracks"]]
    assert h.spent_nano_usd(tenant) == SONG
    assert tenant.client.get(MUSIC).json == {"data": [done]}
