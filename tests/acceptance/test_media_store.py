"""What was made outlives its upstream's link: the gateway copies it, and gives links of its own."""

import io
from pathlib import Path
from typing import Any

import av
import pytest

from loadtests.rig.client import fetch
from loadtests.rig.deployment import channel, deployment, model
from loadtests.rig.waiting import until
from tests.acceptance.sounds import FILMED, MUSIC, SPEECH, SPOKEN, SUNG, VIDEOS

pytestmark = pytest.mark.long

FILM = {"content": [{"type": "text", "text": "a boat"}], "duration": 8}
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=["music", "speech", "videos"]),
        channel("sora", protocols=["videos"], wire={"videos": "openai"}),
    ],
    "models": [
        model("film", "one", **FILMED),
        model("sora-film", "sora", **FILMED),
        model("song", "one", **SUNG),
        model("tts", "one", **SPOKEN),
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.2},
    "media_store": {"kind": "local"},
}


def test_what_was_made_is_there_when_their_upstream_is_not(
    database_url: str, data_dir: Path
) -> None:
    with deployment(database_url, data_dir, **SETTINGS) as built:
        built.upstream.fault(task_seconds=0.5, link_seconds=3600)
        spoken = {"model": "tts", "input": "Good morning.", "voice": "anna", "async": True}
        tasks = [
            (path, built.client.send("POST", path, body).json["id"])
            for path, body in (
                (MUSIC, {"model": "song", "prompt": "rain"}),
                (SPEECH, spoken),
                (VIDEOS, {"model": "film", **FILM}),
                (VIDEOS, {"model": "sora-film", **FILM}),
            )
        ]

        def links() -> list[str]:
            shown = [built.client.get(f"{path}/{task}").json for path, task in tasks]
            found = [
                made.get("audio_url") or made.get("video_url", "")
                for one in shown
                for made in one.get("tracks", [one])
            ]
            return found if all("/v1/media/" in link for link in found) else []

        found = until(links, what="the copies")
        assert len(found) == 5
        assert all(link.startswith(built.gateway.url) for link in found)
        (listed,) = built.client.get(MUSIC).json["data"]
        assert [track["audio_url"] for track in listed["tracks"]] == found[:2]
        assert "/v1/media/" in listed["tracks"][0]["image_url"]
        built.simulator.close()
        for link in found:
            with av.open(io.BytesIO(fetch(link).body)) as file:
                assert file.streams.audio or file.streams.video
