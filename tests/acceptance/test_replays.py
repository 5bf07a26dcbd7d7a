"""An idempotency key at every door that takes one: a replay needs nothing but the same request."""

from collections.abc import Callable
from typing import Any

import pytest
from openai import OpenAI

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.acceptance import films, pictures, sounds
from tests.acceptance.test_measured import SOUND, WAVE
from tests.support.forms import TYPE, form, part

SETTINGS: dict[str, Any] = {
    "channels": [
        channel(
            "one",
            protocols=[
                *("chat", "images", "transcriptions", "rerank", "videos", "music", "speech"),
                *("voices", "transcripts", "avatars"),
            ],
        )
    ],
    "models": [
        model("sim-model", "one"),
        pictures.picture("picture", "one"),
        model("whisper", "one", **SOUND, price={"per_second": "0.0001"}),
        model("rank", "one", endpoint_type="rerank", price={"per_call": "0.002"}),
        model("dh-avatar", "one", **sounds.FILMED),
        *sounds.ON_ONE,
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3},
}

Ask = Callable[[Client, dict[str, str]], Response]


def sent(path: str, *parts: bytes) -> Ask:
    """A form."""
    typed = {"Content-Type": TYPE}
    return lambda client, headers: client.send("POST", path, form(*parts), headers=headers | typed)


def rank(client: Client, headers: dict[str, str]) -> Response:
    body = {"model": "rank", "query": "q", "documents": ["a", "b"]}
    return client.send("POST", "/v1/rerank", body, headers=headers)


DOORS: dict[str, Ask] = {
    "images": lambda client, headers: pictures.generate(client, headers=headers),
    "edits": sent(
        "/v1/images/edits",
        part("image", b"1", "a.png"),
        part("prompt", b"a boat"),
        part("model", b"picture"),
    ),
    "videos": films.submit,
    "avatars": sounds.register,
    "music": sounds.compose,
    "speech": sounds.speak,
    "speech task": lambda client, headers: sounds.speak(client, headers, **{"async": True}),
    "voices": sounds.clone,
    "transcripts": sounds.extract,
    "transcriptions": sent(
        "/v1/audio/transcriptions", part("file", WAVE, "a.wav"), part("model", b"whisper")
    ),
    "rerank": rank,
}


@pytest.mark.parametrize("door", DOORS)
def test_replay_comes_before_whatever_the_request_would_be_refused_for(
    h: Deployment, tenant: Tenant, door: str
) -> None:
    ask, headers = DOORS[door], {"Idempotency-Key": f"key-{door.replace(' ', '-')}"}
    first = ask(tenant.client, headers)
    assert first.status in (200, 201, 202), first
    assert "idempotency-replayed" not in first.headers
    narrow = h.another(tenant, allowed_models=["sim-model"])  # which may not use the model
    refused = ask(narrow.client, {})
    assert refused.status in (400, 403), refused
    malformed = {"x-gateway-run": "a b"}
    assert ask(tenant.client, malformed).status == 400
    again = ask(narrow.client, headers | malformed)
    assert again.headers.get("idempotency-replayed") == "true", again
    assert (again.status, again.body) == (first.status, first.body)
    assert again.trace == first.trace
    charged = [row for row in h.rows(tenant) if row["status"] not in ("rejected",)]
    assert len(charged) <= 1  # a task's row comes with its end


def test_film_whose_avatar_is_gone_is_replayed(h: Deployment, tenant: Tenant) -> None:
    avatar = sounds.register(tenant.client).json["id"]
    sounds.ended(tenant.client, "/v1/videos/avatars", avatar)
    body = {"model": "dh-avatar", "duration": 5, "text": "Hello", "voice": "preset-warm"}
    body |= {"avatar": avatar}
    headers = {"Idempotency-Key": "film-1"}
    first = tenant.client.send("POST", films.VIDEOS, body, headers=headers)
    assert first.status == 200, first
    assert tenant.client.send("DELETE", f"/v1/videos/avatars/{avatar}").status == 200
    again = tenant.client.send("POST", films.VIDEOS, body, headers=headers)
    assert again.headers.get("idempotency-replayed") == "true", again
    assert again.body == first.body
    assert tenant.client.send("POST", films.VIDEOS, body).status == 400


def test_libraries_next_try_of_a_form_has_another_boundary(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    headers = {"Idempotency-Key": "recording-1"}
    create: Any = sdk.audio.transcriptions.with_raw_response.create
    one, other = (
        create(model="whisper", file=("a.wav", WAVE), extra_headers=headers) for _ in range(2)
    )
    assert other.headers["idempotency-replayed"] == "true"
    assert one.text == other.text
    assert len(h.rows(tenant)) == 1
