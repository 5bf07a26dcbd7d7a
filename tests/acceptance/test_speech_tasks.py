"""Speech as tasks on real processes: `async` submits, polls, lists."""

from __future__ import annotations

from typing import Any
from urllib.request import urlopen

import av
import pytest

from tests.acceptance import sounds
from tests.acceptance.links import expire_link
from tests.acceptance.sounds import (
    CHARACTER,
    SPEECH,
    clone,
    ended,
    speak,
    spent_nano_usd,
)
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = sounds.SETTINGS
BAD = "invalid_request_error"
ASYNC: dict[str, Any] = {"async": True}


def test_recording_is_made_paid_for_and_plays(h: House, tenant: Tenant) -> None:
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
    done = ended(tenant.client, SPEECH, begun.json["id"], "pending")
    assert done["status"] == "succeeded"
    assert isinstance(done["expires_at"], int)
    with urlopen(done["audio_url"]) as sound, av.open(sound) as recording:
        assert recording.streams.audio
    row = h.row(begun.trace)
    assert (row["unit_type"], row["unit_count"]) == ("audio", len(text))
    assert row["result_urls"] == [done["audio_url"]]
    assert spent_nano_usd(h, tenant) == len(text) * CHARACTER
    assert tenant.client.get(f"{SPEECH}?status=succeeded").json == {"data": [done]}
    assert tenant.client.get(f"{SPEECH}?status=pending").json == {"data": []}
    assert tenant.client.get(f"{SPEECH}?status=queued").refusal == (400, BAD, "invalid_request")


def test_dialect_with_a_file_of_its_own(h: House, tenant: Tenant) -> None:
    h.upstream.fault("hex", task_seconds=0.3)
    begun = speak(tenant.client, **ASYNC, model="tts-hex")
    done = ended(tenant.client, SPEECH, begun.json["id"], "pending")
    assert done["status"] == "succeeded"


def test_link_that_has_expired_is_asked_for_again(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=0.1)
    begun = speak(tenant.client, **ASYNC)
    first = ended(tenant.client, SPEECH, begun.json["id"], "pending")
    expire_link(h, begun.json["id"])
    assert tenant.client.get(SPEECH).json == {"data": [first]}  # the upstream's own again


def test_task_that_is_cancelled_has_failed(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", task_seconds=1000)
    task = speak(tenant.client, **ASYNC).json["id"]
    h.gw("tasks", "cancel", task)
    shown = tenant.client.get(f"{SPEECH}/{task}").json
    assert (shown["status"], shown["error"]["code"]) == ("failed", "task_cancelled")
    assert spent_nano_usd(h, tenant) == 0


def test_own_voice_pins_a_task_to_its_channel(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", status=500)
    voice = clone(tenant.client).json["id"]
    h.upstream.reset()
    h.upstream.fault("two", task_seconds=0.2)
    paid = spent_nano_usd(h, tenant)
    task = speak(tenant.client, **ASYNC, voice=voice).json["id"]
    assert ended(tenant.client, SPEECH, task, "pending")["status"] == "succeeded"
    assert h.upstream.requested("one") == [0]
    assert spent_nano_usd(h, tenant) == paid + len("Hello there") * CHARACTER


def test_longer_texts_than_at_once_and_not_endless_ones(tenant: Tenant) -> None:
    reply = speak(tenant.client, **ASYNC, input="x" * 50_001)
    assert reply.refusal == (400, BAD, "invalid_request")
