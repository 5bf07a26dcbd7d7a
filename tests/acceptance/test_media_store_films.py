"""A film outlives its upstream's link: the gateway copies it, and gives a link of its own."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.house import House, channel, house, model
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.long

FILM = {"content": [{"type": "text", "text": "a boat"}], "duration": 8}
VIDEOS = "/v1/videos/generations"
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=["videos"]),
        channel("sora", protocols=["videos"], wire={"videos": "openai"}),
    ],
    "models": [
        model(name, at, endpoint_type="videos_generations", price={"per_second": "0.1"})
        for name, at in (("film", "one"), ("sora-film", "sora"))
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.2},
    "media_store": {"kind": "local"},
}


def made(house: House, task: str) -> dict[str, Any] | None:
    """The task, once its film is here."""
    shown: dict[str, Any] = house.client.get(f"{VIDEOS}/{task}").json
    assert shown["status"] in ("queued", "running", "succeeded"), shown
    return shown if "/v1/media/" in shown.get("video_url", "") else None


@pytest.mark.parametrize("name", ["film", "sora-film"])
def test_a_film_is_there_when_its_upstream_is_not(
    database_url: str, data_dir: Path, name: str
) -> None:
    with house(database_url, data_dir, **SETTINGS) as built:
        built.upstream.fault(task_seconds=0)
        task = built.client.send("POST", VIDEOS, {"model": name, **FILM}).json["id"]
        shown = until(lambda: made(built, task), what="the copy")
        assert shown["video_url"].startswith(built.gateway.url)
        (listed,) = built.client.get(VIDEOS).json["data"]
        assert listed == shown
        built.simulator.close()
        with urllib.request.urlopen(shown["video_url"], timeout=PATIENCE_SECONDS) as answer:
            assert answer.read()[4:8] == b"ftyp"
