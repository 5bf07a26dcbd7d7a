"""Short ways to read a body as a client sends it, and to see what is refused."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from channels.errors import InvalidRequest
from channels.registry import VideoSpec
from gw.media.clips import SCENES, read_clip
from gw.media.digital_humans import read_avatar_video, read_lipsync_video, read_motion_video
from gw.media.general_videos import read_general
from gw.media.music import read_music
from gw.media.registrations import read_avatar, read_transcript, read_voice
from gw.media.speech import read_speech

T = TypeVar("T")

FILM, AUDIO, IMAGE = "https://a.example/a.mp4", "https://a.example/a.mp3", "https://a.example/a.png"
TEXT = {"type": "text", "text": "A cat"}
PORTRAIT = {"type": "image_url", "image_url": {"url": IMAGE}}
MATERIAL = {"type": "image", "file_url": IMAGE}

# The shortest good body of each kind of request, and how it is read.
GENERAL: Any = {"model": "film", "content": [TEXT]}
AVATAR_VIDEO: Any = {"model": "dh-avatar", "duration": 9, "avatar": "ava_1", "audio_url": AUDIO}
LIPSYNC: Any = {"model": "dh", "duration": 9, "source_video_url": FILM, "audio_url": AUDIO}
MOTION: Any = {"model": "dh", "duration": 9, "source_video_url": FILM, "content": [PORTRAIT]}
REALMAN: Any = {"model": "clip-realman", "style_id": "s", "source_video_url": FILM}
MIXCUT: Any = {"model": "clip-mixcut", "style_id": "s", "audio_url": AUDIO, "materials": [MATERIAL]}
NEWS: Any = {"model": "clip-news", "style_id": "s", "title": "T", "materials": [MATERIAL]}
MUSIC: Any = {"model": "song", "prompt": "A song"}
SPEECH: Any = {"model": "tts", "input": "Hello", "voice": "v"}
AVATAR: Any = {"name": "Ann", "source_url": IMAGE}
VOICE: Any = {"model": "clone", "name": "Ann", "audio_url": AUDIO}
TRANSCRIPT: Any = {"url": FILM}

READERS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "general": (GENERAL, lambda body: read_general(body, VideoSpec())),
    "dh-avatar": (AVATAR_VIDEO, read_avatar_video),
    "dh-lipsync": (LIPSYNC, read_lipsync_video),
    "dh-motion": (MOTION, read_motion_video),
    "realman": (REALMAN, lambda body: read_clip(body, SCENES["clip-realman"])),
    "mixcut": (MIXCUT, lambda body: read_clip(body, SCENES["clip-mixcut"])),
    "news": (NEWS, lambda body: read_clip(body, SCENES["clip-news"])),
    "music": (MUSIC, read_music),
    "speech": (SPEECH, read_speech),
    "avatar": (AVATAR, read_avatar),
    "voice": (VOICE, read_voice),
    "transcript": (TRANSCRIPT, lambda body: read_transcript(body, default_model="script")),
}


def written(kind: str, **changes: Any) -> bytes:
    """A good body with some fields changed; one that is ABSENT is left out."""
    fields = READERS[kind][0] | changes
    return json.dumps({k: v for k, v in fields.items() if v is not ABSENT}).encode()


ABSENT = object()


def read(kind: str, **changes: Any) -> Any:
    return READERS[kind][1](written(kind, **changes))


def refusal(kind: str, **changes: Any) -> InvalidRequest | None:
    try:
        read(kind, **changes)
    except InvalidRequest as error:
        return error
    return None


def refused(kind: str, **changes: Any) -> InvalidRequest:
    error = refusal(kind, **changes)
    assert error is not None, "it was taken"
    return error


def video(spec: VideoSpec, **changes: Any) -> Any:
    return read_general(written("general", **changes), spec)


def video_refused(spec: VideoSpec, **changes: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        video(spec, **changes)
    return caught.value
