"""Requests for clips: films cut by a template (contract for media §4: `clip-*`).

Fields of other scenes are neither validated nor sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from channels.media import requests
from gw.media.fields import (
    FLAG_WORDS,
    LINE_CHARACTERS_MAX,
    LINE_WORDS,
    MODEL_WORDS,
    REFERENCE_WORDS,
    SECONDS_WORDS,
    WORD_WORDS,
    FieldTable,
    Line,
    Model,
    Number,
    Reference,
    Seconds,
    Word,
    require,
    required_url,
    url,
    url_if_any,
)

MATERIALS_MAX = 10
NEWS_SECONDS_LEAST, NEWS_SECONDS_MOST = 5, 300

# The upstreams' names of template scenes (spec: Avatars, `clip-templates`), in this order.
TEMPLATE_SCENES = ("virtualman", "realMan", "oralMixCutting", "newsMixCutting")
# The model of each scene.
SCENES: Mapping[str, requests.ClipScene] = {
    "clip-realman": "realman",
    "clip-mixcut": "mixcut",
    "clip-news": "news",
}


class _Material(Struct, gc=False):
    type: requests.MaterialType
    file_url: str
    sound_switch: bool | None = None


class _Music(Struct, gc=False):
    mode: Literal["auto", "none", "custom"] | None = None
    url: str | None = None
    volume: Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)] | None = None


class _Card(Struct, gc=False):
    name: Line | None = None
    description: Line | None = None


class _Clip(Struct, gc=False, kw_only=True):
    """The fields of every scene."""

    model: Model
    style_id: Reference
    title: Line | None = None
    language: Word | None = None
    bgm: _Music | None = None
    cover_url: str | None = None
    introduce_card: _Card | None = None
    resolution: Word | None = None
    ratio: Word | None = None
    watermark: bool | None = None
    portrait_auth: bool | None = None


_Materials = Annotated[list[_Material], Meta(min_length=1, max_length=MATERIALS_MAX)]


class _RealMan(_Clip, gc=False, kw_only=True):
    source_video_url: str | None = None
    materials: _Materials | None = None
    preprocess: Literal["roughCut", "sliceMerge"] | None = None
    duration: Seconds | None = None


class _MixCut(_Clip, gc=False, kw_only=True):
    audio_url: str | None = None
    materials: _Materials | None = None
    duration: Seconds | None = None


class _News(_Clip, gc=False, kw_only=True):
    materials: _Materials | None = None
    material_composition: Literal["random", "order"] | None = None
    duration: Number | None = None


_MATERIALS_WORDS = f"an array of 1 to {MATERIALS_MAX} materials"
_WORDS = {
    "model": MODEL_WORDS,
    "style_id": REFERENCE_WORDS,
    "title": LINE_WORDS,
    "language": WORD_WORDS,
    "bgm": "an object",
    "bgm.mode": "auto, none or custom",
    "bgm.url": "an http or https URL",
    "bgm.volume": "a number from 0 to 1",
    "cover_url": "an http or https URL",
    "introduce_card": "an object of strings",
    "introduce_card.name": LINE_WORDS,
    "introduce_card.description": LINE_WORDS,
    "resolution": WORD_WORDS,
    "ratio": WORD_WORDS,
    "watermark": FLAG_WORDS,
    "portrait_auth": FLAG_WORDS,
    "materials": _MATERIALS_WORDS,
    "materials[]": "an object of type, file_url and sound_switch",
    "materials[].type": "image or video",
    "materials[].file_url": "an http or https URL",
    "materials[].sound_switch": FLAG_WORDS,
    "material_composition": "random or order",
    "preprocess": "roughCut or sliceMerge",
    "source_video_url": "an http or https URL",
    "audio_url": "an http or https URL",
    "duration": SECONDS_WORDS,
}
_REALMAN = FieldTable(_RealMan, _WORDS)
_MIXCUT = FieldTable(_MixCut, _WORDS)
_NEWS = FieldTable(_News, _WORDS | {"duration": "a number of seconds"})


def read_clip(body: bytes, scene: requests.ClipScene) -> requests.ClipVideo:
    """Validate a body of a scene. Raises InvalidRequest."""
    if scene == "realman":
        return _real_man(_REALMAN.read(body))
    return _mix_cut(_MIXCUT.read(body)) if scene == "mixcut" else _news(_NEWS.read(body))


def _real_man(read: _RealMan) -> requests.ClipVideo:
    return requests.ClipVideo(
        **_shared(read),
        scene="realman",
        asked_duration=read.duration,
        source_video_url=required_url("source_video_url", read.source_video_url),
        materials=_materials(read.materials),
        preprocess=read.preprocess,
    )


def _mix_cut(read: _MixCut) -> requests.ClipVideo:
    return requests.ClipVideo(
        **_shared(read),
        scene="mixcut",
        asked_duration=read.duration,
        audio_url=required_url("audio_url", read.audio_url),
        materials=_materials(read.materials, required=True),
    )


def _news(read: _News) -> requests.ClipVideo:
    if read.title is None or not read.title.strip():
        require("title", f"a string of 1 to {LINE_CHARACTERS_MAX} characters")
    duration = None
    if read.duration is not None:
        duration = min(max(read.duration, NEWS_SECONDS_LEAST), NEWS_SECONDS_MOST)
    return requests.ClipVideo(
        **_shared(read),
        scene="news",
        duration=duration,
        asked_duration=duration,
        materials=_materials(read.materials, required=True),
        material_composition=read.material_composition,
    )


def _shared(read: _Clip) -> dict[str, Any]:
    """Return the validated fields of every scene."""
    card = read.introduce_card
    fields = {} if card is None else {"name": card.name, "description": card.description}
    return {
        "model": read.model,
        "style_id": read.style_id,
        "title": read.title,
        "language": read.language,
        "bgm": None if read.bgm is None else _music(read.bgm),
        "cover_url": url_if_any("cover_url", read.cover_url),
        "introduce_card": {name: text for name, text in fields.items() if text is not None} or None,
        "resolution": read.resolution,
        "ratio": read.ratio,
        "watermark": read.watermark,
        "portrait_auth": read.portrait_auth,
    }


def _music(bgm: _Music) -> requests.BackgroundMusic:
    link = required_url("bgm.url", bgm.url) if bgm.mode == "custom" else None
    return requests.BackgroundMusic(mode=bgm.mode, url=link, volume=bgm.volume)


def _materials(
    given: list[_Material] | None, *, required: bool = False
) -> tuple[requests.Material, ...]:
    if given is None:
        return require("materials", _MATERIALS_WORDS) if required else ()
    return tuple(
        requests.Material(
            type=one.type,
            file_url=url(f"materials[{index}].file_url", one.file_url),
            sound_switch=one.sound_switch,
        )
        for index, one in enumerate(given)
    )
