"""The channels and models that the tests of films share, and what they ask."""

from collections.abc import Mapping
from typing import Any

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from tests.acceptance import sounds

VIDEOS = "/v1/videos/generations"
SECOND = 100_000_000  # nano-USD
PORTRAIT = "https://media.example/face.png"
SOURCE = "https://media.example/talk.mp4"
RECORDING = "https://media.example/talk.mp3"

PROTOCOLS = ["chat", "videos", "avatars", "clips", "voices"]
SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            channel(name, priority=place, protocols=PROTOCOLS)
            for place, name in enumerate(("one", "two", "three"), start=1)
        ),
        channel("down", priority=0, protocols=["videos"], base_url="http://127.0.0.1:1"),
        channel("studio", protocols=["videos"], wire={"videos": "openai"}),
        channel("ark", protocols=["videos"], wire={"videos": "ark"}),
    ],
    "models": [
        model("sim-model", "one"),
        model("film", {"id": "one", "as": "vendor-film"}, "two", "three", **sounds.FILMED),
        model("film-down", "down", "two", "three", **sounds.FILMED),
        model("film-lite", "one", aliases=["film-small"], **sounds.FILMED),
        model("film-faces", "one", **sounds.FILMED, video={"real_person": True}),
        model(
            "film-other",
            "one",
            endpoint_type="contents_generations_tasks",
            price={"per_second": "0.1", "per_second_by_resolution": {"1080p": "0.3"}},
            video={"third_party": True},
        ),
        model("film-studio", "studio", **sounds.FILMED),
        model("film-ark", "ark", **sounds.FILMED),
        model("avatar-create", "one", **sounds.SHOWN),
        model("dh-avatar", "one", **sounds.FILMED),
        model("dh-lipsync-pro", "one", **sounds.FILMED),
        model(
            "dh-motion",
            "one",
            endpoint_type="videos_generations",
            price={"per_second": "0.1", "per_second_by_resolution": {"fast": "0.05", "max": "0.3"}},
        ),
        model("clip-realman", "one", **sounds.FILMED),
        model("clip-mixcut", "one", **sounds.FILMED),
        model("clip-news", "one", **sounds.FILMED),
        model("dh-of-another-kind", "one", **sounds.FILMED),
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3, "lease": 2, "catalog_seconds": 1},
}

TEXT = {"type": "text", "text": "a boat"}


def image(url: str = PORTRAIT) -> dict[str, Any]:
    """An item of `content`."""
    return {"type": "image_url", "image_url": {"url": url}}


def submit(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """Ask for a film of four seconds."""
    request = {"model": "film", "content": [TEXT], "duration": 4, **more}
    request = {name: value for name, value in request.items() if value is not None}
    return client.send("POST", VIDEOS, request, headers=headers)


def polled(client: Client, task_id: str) -> dict[str, Any]:
    """A task as its client sees it."""
    reply = client.get(f"{VIDEOS}/{task_id}")
    assert reply.status == 200, reply
    shown: dict[str, Any] = reply.json
    return shown


def ended(client: Client, task_id: str) -> dict[str, Any]:
    """What a task has become."""
    shown: dict[str, Any] = sounds.ended(client, VIDEOS, task_id)
    return shown


def posted(h: Deployment) -> list[dict[str, Any]]:
    """The submits that upstreams have seen."""
    return [one for one in h.upstream.requests() if one["method"] == "POST"]
