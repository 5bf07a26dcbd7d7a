"""The channels and models that tests of media share, and what they ask: a request of each kind."""

from collections.abc import Mapping
from typing import Any

from loadtests.rig.client import Client
from loadtests.rig.deployment import channel, model
from loadtests.rig.response import Response
from loadtests.rig.waiting import until

SPEECH, VOICES = "/v1/audio/speech", "/v1/audio/voices"
TRANSCRIPTS = "/v1/transcripts/extract"
MUSIC, AVATARS = "/v1/music/generations", "/v1/videos/avatars"
VIDEOS = "/v1/videos/generations"
TEMPLATES = "/v1/videos/clip-templates"

CHARACTER = 30_000  # nano-USD
VOICE = 500_000_000
SCRIPT = 20_000_000
SONG = 120_000_000
AVATAR = 200_000_000
RECORDING = "https://media.example/speaker.mp3"
PORTRAIT = "https://media.example/face.png"

SPOKEN = {"endpoint_type": "audio_speech", "price": {"per_character": "0.00003"}}
CLONED = {"endpoint_type": "audio_voices", "price": {"per_call": "0.5"}}
WRITTEN = {"endpoint_type": "transcripts_extract", "price": {"per_call": "0.02"}}
SUNG = {"endpoint_type": "music_generations", "price": {"per_generation": "0.12"}}
SHOWN = {"endpoint_type": "videos_avatars", "price": {"per_call": "0.2"}}
FILMED = {"endpoint_type": "videos_generations", "price": {"per_second": "0.1"}}
# One model of each kind, on the one channel.
ON_ONE = [
    model("film", "one", **FILMED),
    model("tts", "one", **SPOKEN),
    model("clone", "one", **CLONED),
    model("script", "one", **WRITTEN),
    model("song", "one", **SUNG),
    model("avatar-create", "one", **SHOWN),
]
_ALL = ["speech", "voices", "transcripts", "music", "avatars", "clips", "videos"]
SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            channel(name, priority=place, protocols=_ALL)
            for place, name in enumerate(("one", "two", "three"), start=1)
        ),
        channel("hex", protocols=["speech"], wire={"speech": "minimax"}),
        channel("quiet", protocols=["speech", "transcripts", "voices"]),
    ],
    "models": [
        model("sim-model", "one"),
        model("tts", "one", "two", **SPOKEN),
        model("tts-hex", "hex", **SPOKEN),
        model("tts-quiet", "quiet", **SPOKEN),
        model("clone", "one", "two", **CLONED),
        model("script", {"id": "one", "as": "vendor-script"}, "two", **WRITTEN),
        model("script-quiet", "quiet", **WRITTEN),
        model("song", "one", "two", **SUNG),
        model("avatar-create", "one", **SHOWN),
        model("dh-avatar", "one", "two", **{**FILMED, "price": {"per_second": "0.001"}}),
        model("film", "one", "two", **FILMED),
        model("clip-news", "one", **FILMED),
    ],
    "tasks": {"poll_first": 0.2, "poll_max": 0.5, "catalog_seconds": 1},
    "idempotency_max_kb": 64,
    "timeouts": {"speech": 3, "transcript": 3, "voice": 3},  # upstreams may not answer
}

# A request of each kind, its price, and where its tasks are listed under which name.
SUBMITS: dict[str, tuple[str, dict[str, Any]]] = {
    "speech": (SPEECH, {"model": "tts", "input": "Hello", "voice": "preset-warm"}),
    "speech-task": (
        SPEECH,
        {"model": "tts", "input": "Hello", "voice": "preset-warm", "async": True},
    ),
    "voice": (VOICES, {"model": "clone", "name": "Me", "audio_url": RECORDING}),
    "script": (TRANSCRIPTS, {"url": "https://video.example/1"}),
    "music": (MUSIC, {"model": "song", "prompt": "a boat"}),
    "avatar": (AVATARS, {"name": "Anna", "source_url": PORTRAIT}),
    "film": (
        VIDEOS,
        {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": 2},
    ),
}
COSTS = {
    "speech": len("Hello") * CHARACTER,
    "speech-task": len("Hello") * CHARACTER,
    "voice": VOICE,
    "script": SCRIPT,
    "music": SONG,
    "avatar": AVATAR,
    "film": 200_000_000,
}
LISTS = {"speech-task": "data", "music": "data", "avatar": "avatars", "film": "data"}


def post(
    client: Client, path: str, headers: Mapping[str, str] | None = None, **body: Any
) -> Response:
    """One request."""
    return client.send("POST", path, body, headers=headers)


def ask(client: Client, kind: str, key: str | None = None, **more: Any) -> Response:
    """One request of this kind, with `more` in it."""
    path, body = SUBMITS[kind]
    headers = None if key is None else {"Idempotency-Key": key}
    return post(client, path, headers, **{**body, **more})


def speak(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One recording."""
    message = {"model": "tts", "input": "Hello there", "voice": "preset-warm", **more}
    return post(client, SPEECH, headers, **message)


def clone(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One cloned voice."""
    message = {"model": "clone", "name": "Me", "audio_url": RECORDING, **more}
    return post(client, VOICES, headers, **message)


def extract(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One script."""
    return post(client, TRANSCRIPTS, headers, url="https://video.example/1", **more)


def compose(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One task of music."""
    return post(client, MUSIC, headers, **{"model": "song", "prompt": "a boat", **more})


def register(client: Client, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """One avatar."""
    return post(client, AVATARS, headers, **{"name": "Anna", "source_url": PORTRAIT, **more})


def ended(client: Client, path: str, task_id: str) -> Any:
    """What a task has become."""
    open_words = ("queued", "pending", "processing", "running")
    shown: list[Any] = []

    def is_over() -> bool:
        reply = client.get(f"{path}/{task_id}")
        assert reply.status == 200, reply
        shown.append(reply.json)
        return reply.json["status"] not in open_words

    until(is_over, what=f"the end of {task_id}")
    return shown[-1]
