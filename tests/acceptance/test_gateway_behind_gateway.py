"""A gateway as the upstream of another one: it speaks the plain wire, which is its client API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import sounds
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
    spent_nano_usd,
)
from tests.support.house import House, channel, house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

_ALL = ["speech", "voices", "transcripts", "music", "avatars", "clips"]


@contextmanager
def chain(postgres: PostgresForTests, folder: Path) -> Iterator[tuple[House, Tenant, House]]:
    """A gateway with the simulator behind it, its key for the other one, and the other one."""
    near, far = folder / "near", folder / "far"
    near.mkdir()
    far.mkdir()
    with (
        postgres.database() as far_url,
        postgres.database() as near_url,
        house(far_url, far, is_funded=False, **sounds.SETTINGS) as upstream,
    ):
        account = upstream.tenant(nano_usd=2 * 10**9)
        behind = channel(
            "behind", protocols=_ALL, base_url=upstream.gateway.url, api_key=account.key
        )
        models = [
            {**one, "channels": ["behind"]}
            for one in sounds.SETTINGS["models"]
            if one["id"] in ("tts", "clone", "script", "song", "avatar-create", "clip-news")
        ]
        settings: dict[str, Any] = {**sounds.SETTINGS, "channels": [behind], "models": models}
        with house(near_url, near, is_funded=False, **settings) as h:
            yield upstream, account, h


def test_everything_is_made_and_paid_for_once_on_either_side(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=0.3)
        client = h.tenant(nano_usd=2 * 10**9)
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
        assert ended(ask, MUSIC, song, "processing")["status"] == "succeeded"
        assert ended(ask, AVATARS, avatar, "pending")["status"] == "ready"
        assert ended(ask, SPEECH, task, "pending")["status"] == "succeeded"
        assert ask.send("DELETE", f"{AVATARS}/{avatar}").status == 200
        assert account.client.get(AVATARS).json == {"avatars": []}
        cost = VOICE + SCRIPT + SONG + AVATAR + 2 * len("Hello there") * CHARACTER
        assert spent_nano_usd(h, client, 2 * 10**9) == cost
        assert spent_nano_usd(upstream, account, 2 * 10**9) == cost


def test_task_that_is_cancelled_goes_on_at_the_far_one(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=1000)
        tenant = h.tenant()
        task = compose(tenant.client).json["id"]
        assert h.gw("tasks", "cancel", task)["status"] == "cancelled"
        assert spent_nano_usd(h, tenant) == 0
        (far,) = account.client.get(MUSIC).json["data"]
        assert far["status"] == "processing"
        assert upstream.gw("tasks", "cancel", far["id"])["status"] == "cancelled"


def test_refusal_of_the_far_one_is_passed_on(postgres: PostgresForTests, tmp_path: Path) -> None:
    with chain(postgres, tmp_path) as (upstream, _, h):
        upstream.upstream.fault("one", status=422, message="No such singer.")
        tenant = h.tenant()
        reply = compose(tenant.client)
        assert reply.refusal == (422, "invalid_request_error", "invalid_request")
        assert reply.error["message"] == "No such singer."
        assert spent_nano_usd(h, tenant) == 0
