"""Which function answers which method and path, over which wire."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from loadtests.simulator.tasks import (
    ark,
    avatars,
    clips,
    minimax,
    music,
    openai,
    shanjian,
    speech,
    suno,
    transcripts,
    videos,
    voices,
)
from loadtests.simulator.tasks.call import Handler, Wire
from loadtests.simulator.tasks.plain import PlainWire

SUBMIT: Final = "submit"
OPEN: Final = "*"  # a place in a path where anything may stand


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint. `part` is what of a directive concerns it."""

    method: str
    path: str
    part: str
    wire: Wire
    handler: Handler
    query: str = ""  # the parameter that names the task, where the path does not

    @property
    def protocol(self) -> str:
        """Under which name its requests are counted."""
        name = self.wire.name
        return name if self.part == SUBMIT else f"{name}.{self.part}"


Row = tuple[str, str, str, Handler] | tuple[str, str, str, Handler, str]


def _plain(name: str, *rows: Row) -> list[Route]:
    return _over(PlainWire(name), *rows)


def _over(wire: Wire, *rows: Row) -> list[Route]:
    return [Route(*row[:3], wire, *row[3:]) for row in rows]


_VIDEOS = "/v1/videos/generations"
_AVATARS = "/v1/videos/avatars"
_TEMPLATES = "/v1/videos/clip-templates"
_MUSIC = "/v1/music/generations"
_SPEECH = "/v1/audio/speech"
_VOICES = "/v1/audio/voices"
_TRANSCRIPTS = "/v1/transcripts/extract"
_ARK = "/api/v3/contents/generations/tasks"
_OPENAI = "/v1/videos"

ROUTES: Final[tuple[Route, ...]] = (
    *_plain(
        "videos",
        ("POST", _VIDEOS, SUBMIT, videos.submit),
        ("GET", f"{_VIDEOS}/*", "poll", videos.poll),
        ("DELETE", f"{_VIDEOS}/*", "cancel", videos.cancel),
        ("POST", "/v1/assets", "asset", videos.register_asset),
    ),
    *_plain(
        "avatars",
        ("POST", _AVATARS, SUBMIT, avatars.register),
        ("GET", _AVATARS, "catalog", avatars.listed),
        ("GET", f"{_AVATARS}/presets", "catalog", avatars.presets),
        ("GET", f"{_AVATARS}/*", "poll", avatars.poll),
        ("DELETE", f"{_AVATARS}/*", "cancel", avatars.delete),
    ),
    *_plain(
        "clips",
        ("GET", _TEMPLATES, "catalog", clips.listed),
        ("GET", f"{_TEMPLATES}/*", "catalog", clips.detail),
    ),
    *_plain(
        "music",
        ("POST", _MUSIC, SUBMIT, music.submit),
        ("GET", f"{_MUSIC}/*", "poll", music.poll),
        ("DELETE", f"{_MUSIC}/*", "cancel", music.cancel),
    ),
    *_plain(
        "speech",
        ("POST", _SPEECH, SUBMIT, speech.submit),
        ("GET", f"{_SPEECH}/*", "poll", speech.poll),
        ("DELETE", f"{_SPEECH}/*", "cancel", speech.cancel),
    ),
    *_plain(
        "voices",
        ("POST", _VOICES, SUBMIT, voices.clone),
        ("GET", _VOICES, "catalog", voices.listed),
    ),
    *_plain(
        "transcripts",
        ("POST", _TRANSCRIPTS, SUBMIT, transcripts.extract),
        ("GET", f"{_TRANSCRIPTS}/*", "poll", transcripts.poll),
    ),
    *_over(
        ark.ArkWire(),
        ("POST", _ARK, SUBMIT, ark.submit),
        ("GET", f"{_ARK}/*", "poll", ark.poll),
        ("DELETE", f"{_ARK}/*", "cancel", ark.cancel),
    ),
    *_over(
        openai.OpenAIWire(),
        ("POST", _OPENAI, SUBMIT, openai.submit),
        ("GET", f"{_OPENAI}/*", "poll", openai.poll),
        ("GET", f"{_OPENAI}/*/content", "file", openai.content),
        ("DELETE", f"{_OPENAI}/*", "cancel", openai.delete),
    ),
    *_over(
        suno.SunoWire(),
        ("POST", "/suno/submit/music", SUBMIT, suno.submit),
        ("GET", "/suno/fetch/*", "poll", suno.poll),
    ),
    *_over(
        minimax.MiniMaxWire(),
        ("POST", "/v1/t2a_v2", SUBMIT, minimax.speak),
        ("POST", "/v1/t2a_async_v2", SUBMIT, minimax.submit),
        ("GET", "/v1/query/t2a_async_query_v2", "poll", minimax.poll, "task_id"),
        ("GET", "/v1/files/retrieve", "file", minimax.retrieve, "file_id"),
    ),
    *_over(
        shanjian.ShanjianWire(),
        ("POST", "/v1/virtualman/video", SUBMIT, shanjian.avatar_video),
        ("POST", "/v1/clip/video/realman_broadcast", SUBMIT, shanjian.realman),
        ("POST", "/v1/clip/video/broadcast_mixcut", SUBMIT, shanjian.mixcut),
        ("POST", "/v1/clip/video/news_mixcut", SUBMIT, shanjian.news),
        ("POST", "/v1/virtualman/image/train", SUBMIT, shanjian.train_image),
        ("POST", "/v1/virtualman/fast/train", SUBMIT, shanjian.train_video),
        ("POST", "/v1/voice/train", SUBMIT, shanjian.train_voice),
        ("GET", "/v1/task/info", "poll", shanjian.poll, "taskId"),
        ("GET", "/v1/clip/template", "catalog", shanjian.listed),
        ("GET", "/v1/clip/template/detail/*", "catalog", shanjian.detail),
        ("GET", "/v1/assets/virtualman/common", "catalog", shanjian.preset_avatars),
        ("GET", "/v1/assets/voice/common", "catalog", shanjian.preset_voices),
    ),
)


@lru_cache(maxsize=1024)
def routes_of(path: str) -> list[tuple[Route, tuple[str, ...]]]:
    """The endpoints of a path with what stands in its open places, exact paths first."""
    segments = path.split("/")
    opened = [(route, _opened(route.path.split("/"), segments)) for route in ROUTES]
    found = [(route, places) for route, places in opened if places is not None]
    return sorted(found, key=lambda pair: len(pair[1]))


def _opened(pattern: list[str], segments: list[str]) -> tuple[str, ...] | None:
    """What stands in a pattern's open places; None where the path is another."""
    if len(pattern) != len(segments):
        return None
    pairs = list(zip(pattern, segments, strict=True))
    if any(want != have and (want != OPEN or not have) for want, have in pairs):
        return None
    return tuple(have for want, have in pairs if want == OPEN)
