"""A gateway behind a gateway makes films: asked, polled and paid for once on either side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import films
from tests.acceptance.films import PORTRAIT, RECORDING, SECOND, SOURCE, ended, polled, spent, submit
from tests.support.house import House, channel, house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

USD = 10**9
SOLD = ("film-other", "avatar-create", "dh-avatar", "dh-lipsync-pro", "clip-realman")


@contextmanager
def chain(postgres: PostgresForTests, folder: Path) -> Iterator[tuple[House, Tenant, House]]:
    """A gateway with the simulator behind it, its key for the other one, and the other one."""
    near, far = folder / "near", folder / "far"
    near.mkdir()
    far.mkdir()
    with (
        postgres.database() as far_url,
        postgres.database() as near_url,
        house(far_url, far, is_funded=False, **films.SETTINGS) as upstream,
    ):
        account = upstream.tenant(nano_usd=100 * USD)
        behind = channel(
            "behind",
            protocols=films.PROTOCOLS,
            base_url=upstream.gateway.url,
            api_key=account.key,
        )
        models = [
            {**one, "channels": ["behind"]} for one in films.SETTINGS["models"] if one["id"] in SOLD
        ]
        settings: dict[str, Any] = {**films.SETTINGS, "channels": [behind], "models": models}
        with house(near_url, near, is_funded=False, **settings) as h:
            yield upstream, account, h


def test_films_are_made_and_paid_for_once_on_either_side(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=0.3)
        tenant = h.tenant(nano_usd=100 * USD)
        made = tenant.client.send(
            "POST", "/v1/videos/avatars", {"name": "A", "source_url": PORTRAIT}
        ).json["id"]
        until(
            lambda: tenant.client.get(f"/v1/videos/avatars/{made}").json["status"] == "ready",
            what="the avatar",
        )
        begun = [
            submit(tenant.client, model="film-other", resolution="1080p", duration=3),
            submit(tenant.client, model="dh-avatar", avatar=made, audio_url=RECORDING),
            submit(
                tenant.client, model="dh-lipsync-pro", source_video_url=SOURCE, audio_url=RECORDING
            ),
            submit(
                tenant.client,
                model="clip-realman",
                style_id="realman-bold",
                source_video_url=SOURCE,
            ),
        ]
        assert [reply.status for reply in begun] == [200] * 4, begun
        done = [ended(tenant.client, reply.json["id"]) for reply in begun]
        assert [one["status"] for one in done] == ["succeeded"] * 4
        far = account.client.get(films.VIDEOS).json["data"]
        assert {one["video_url"] for one in done} == {one["video_url"] for one in far}
        cost = spent(h, tenant, 100 * USD)
        assert cost == spent(upstream, account, 100 * USD)
        assert cost >= 9 * SECOND


def test_film_that_is_cancelled_here_is_told_to_the_far_one(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    with chain(postgres, tmp_path) as (upstream, account, h):
        upstream.upstream.fault("one", task_seconds=3600)
        tenant = h.tenant()
        begun = submit(tenant.client, model="film-other", duration=2)
        assert begun.status == 200, begun
        h.gw("tasks", "cancel", begun.json["id"])
        assert polled(tenant.client, begun.json["id"])["status"] == "cancelled"
        assert spent(h, tenant) == 0
        (far,) = account.client.get(films.VIDEOS).json["data"]
        assert far["status"] in ("queued", "running")  # clients of a gateway cannot cancel
