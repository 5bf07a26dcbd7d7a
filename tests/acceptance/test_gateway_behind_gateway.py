"""A gateway as the upstream of another one: it speaks the plain wire, which is its client API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.deployment import Deployment, channel, deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance import films, sounds
from tests.acceptance.sounds import (
    AVATAR,
    AVATARS,
    CHARACTER,
    MUSIC,
    SCRIPT,
    SONG,
    SPEECH,
    TEMPLATES,
    VOICE,
    VOICES,
    clone,
    compose,
    ended,
    extract,
    register,
    speak,
)

pytestmark = pytest.mark.long

USD = 10**9
SOUNDS = ("tts", "clone", "script", "song", "avatar-create", "clip-news")
FILMS = ("film-other", "avatar-create", "dh-avatar", "dh-lipsync-pro", "clip-realman")


@contextmanager
def chain(
    postgres: PostgresForTests, folder: Path, settings: dict[str, Any], *sold: str
) -> Iterator[tuple[Deployment, Tenant, Deployment]]:
    """A gateway with the simulator behind it, its key for the other one, and the other one."""
    near, far = folder / "near", folder / "far"
    near.mkdir()
    far.mkdir()
    with (
        postgres.database() as far_url,
        postgres.database() as near_url,
        deployment(far_url, far, is_funded=False, **settings) as upstream,
    ):
        account = upstream.tenant(nano_usd=100 * USD)
        spoken = settings["channels"][0]["protocols"]
        behind = channel(
            "behind", protocols=spoken, base_url=upstream.gateway.url, api_key=account.key
        )
        models = [
            {**one, "channels": ["behind"]} for one in settings["models"] if one["id"] in sold
        ]
        with deployment(
            near_url, near, is_funded=False, **{**settings, "channels": [behind], "models": models}
        ) as h:
            yield upstream, account, h


def test_everything_is_made_and_paid_for_once_on_either_side(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path, sounds.SETTINGS, *SOUNDS) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=0.3)
        client = h.tenant(nano_usd=100 * USD)
        ask = client.client
        assert ask.get(TEMPLATES).json == account.client.get(TEMPLATES).json
        assert ask.get(f"{AVATARS}/presets").json == account.client.get(f"{AVATARS}/presets").json
        voice = clone(ask).json["id"]
        voices = ask.get(VOICES).json["voices"]
        assert [one["kind"] for one in voices] == ["preset"] * 3 + ["cloned"]
        spoken = speak(ask, voice=voice, response_format="flac")
        assert (spoken.status, spoken.headers["content-type"]) == (200, "audio/flac")
        assert extract(ask).json["text"].startswith("Welcome")
        song, avatar = compose(ask).json["id"], register(ask).json["id"]
        later: dict[str, Any] = {"async": True}
        task = speak(ask, **later).json["id"]
        assert ended(ask, MUSIC, song)["status"] == "succeeded"
        assert ended(ask, AVATARS, avatar)["status"] == "ready"
        assert ended(ask, SPEECH, task)["status"] == "succeeded"
        assert ask.send("DELETE", f"{AVATARS}/{avatar}").status == 200
        assert account.client.get(AVATARS).json == {"avatars": []}
        cost = VOICE + SCRIPT + SONG + AVATAR + 2 * len("Hello there") * CHARACTER
        assert h.spent_nano_usd(client, 100 * USD) == cost
        assert upstream.spent_nano_usd(account, 100 * USD) == cost


def test_films_are_made_and_paid_for_once_on_either_side(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path, films.SETTINGS, *FILMS) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=0.3)
        tenant = h.tenant(nano_usd=100 * USD)
        made = tenant.client.send(
            "POST", "/v1/videos/avatars", {"name": "A", "source_url": films.PORTRAIT}
        ).json["id"]
        until(
            lambda: tenant.client.get(f"/v1/videos/avatars/{made}").json["status"] == "ready",
            what="the avatar",
        )
        begun = [
            films.submit(tenant.client, model="film-other", resolution="1080p", duration=3),
            films.submit(tenant.client, model="dh-avatar", avatar=made, audio_url=films.RECORDING),
            films.submit(
                tenant.client,
                model="dh-lipsync-pro",
                source_video_url=films.SOURCE,
                audio_url=films.RECORDING,
            ),
            films.submit(
                tenant.client,
                model="clip-realman",
                style_id="realman-bold",
                source_video_url=films.SOURCE,
            ),
        ]
        assert [reply.status for reply in begun] == [200] * 4, begun
        done = [films.ended(tenant.client, reply.json["id"]) for reply in begun]
        assert [one["status"] for one in done] == ["succeeded"] * 4
        far = account.client.get(films.VIDEOS).json["data"]
        assert {one["video_url"] for one in done} == {one["video_url"] for one in far}
        cost = h.spent_nano_usd(tenant, 100 * USD)
        assert cost == upstream.spent_nano_usd(account, 100 * USD)
        assert cost >= 9 * films.SECOND
