"""Requests for clips: films cut by a template (reference 7.5).

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

# The upstreams' names of template scenes (reference 7.5), in this order.
TEMPLATE_SCENES = ("virtualman", "realMan", "oralMixCutting", "newsMixCutting")
# The model of each scene.
SCENES: Mapping[str, requests.ClipScene] = {
    "clip-realman": "realman",
    "clip-mixcut": "mixcut",
    "clip-news": "news",
}


class ClipMaterial(Struct, gc=False):
    """A picture or a film that is cut in."""

    type: Annotated[requests.MaterialType, Meta(description="What the file is.")]
    file_url: Annotated[str, Meta(description="An http or https URL of the file.")]
    sound_switch: Annotated[bool | None, Meta(description="Whether its sound is kept.")] = None


class ClipMusic(Struct, gc=False):
    """The music in the background."""

    mode: Annotated[
        Literal["auto", "none", "custom"] | None,
        Meta(description="`custom`: that of `url`; without it the template's."),
    ] = None
    url: Annotated[
        str | None, Meta(description="An http or https URL of the music, with `custom`.")
    ] = None
    volume: Annotated[
        Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="How loud it is, 0 to 1."),
    ] = None


class ClipCard(Struct, gc=False):
    """A card with the speaker's name."""

    name: Annotated[Line | None, Meta(description="The name shown.")] = None
    description: Annotated[Line | None, Meta(description="The text below it.")] = None


class ClipBody(Struct, gc=False, kw_only=True):
    """The fields of every scene."""

    model: Model
    style_id: Annotated[Reference, Meta(description="The id of the template.")]
    title: Annotated[Line | None, Meta(description="The film's title; needed by `clip-news`.")] = (
        None
    )
    language: Annotated[Word | None, Meta(description="The language of the subtitles.")] = None
    bgm: Annotated[ClipMusic | None, Meta(description="The music in the background.")] = None
    cover_url: Annotated[
        str | None, Meta(description="An http or https URL of the first picture.")
    ] = None
    introduce_card: Annotated[ClipCard | None, Meta(description="Who speaks.")] = None
    resolution: Annotated[Word | None, Meta(description="The size of the picture.")] = None
    ratio: Annotated[Word | None, Meta(description="The shape of the picture.")] = None
    watermark: Annotated[bool | None, Meta(description="Whether the film is marked.")] = None
    portrait_auth: Annotated[
        bool | None,
        Meta(description="States that the person shown has agreed; kept, and not sent."),
    ] = None


_Materials = Annotated[
    Annotated[list[ClipMaterial], Meta(min_length=1, max_length=MATERIALS_MAX)] | None,
    Meta(description="Pictures and films that are cut in; needed by all but `clip-realman`."),
]
_Held = Annotated[
    Seconds | None, Meta(description="Seconds to be held for; the real length is billed.")
]


class RealManBody(ClipBody, gc=False, kw_only=True):
    """A film of a speaker, cut by a template: `clip-realman`."""

    source_video_url: Annotated[
        str | None, Meta(description="Required: an http or https URL of the film of a speaker.")
    ] = None
    materials: _Materials = None
    preprocess: Annotated[
        Literal["roughCut", "sliceMerge"] | None, Meta(description="How the film is cut before.")
    ] = None
    duration: _Held = None


class MixCutBody(ClipBody, gc=False, kw_only=True):
    """Materials cut to a narration: `clip-mixcut`."""

    audio_url: Annotated[
        str | None, Meta(description="Required: an http or https URL of the narration.")
    ] = None
    materials: _Materials = None
    duration: _Held = None


class NewsBody(ClipBody, gc=False, kw_only=True):
    """Materials cut to news: `clip-news`."""

    materials: _Materials = None
    material_composition: Annotated[
        Literal["random", "order"] | None,
        Meta(description="The order of the materials; `random` without it."),
    ] = None
    duration: Annotated[
        Number | None, Meta(description="Seconds of the film, moved to within 5 to 300.")
    ] = None


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
_REALMAN = FieldTable(RealManBody, _WORDS)
_MIXCUT = FieldTable(MixCutBody, _WORDS)
_NEWS = FieldTable(NewsBody, _WORDS | {"duration": "a number of seconds"})


def read_clip(body: bytes, scene: requests.ClipScene) -> requests.ClipVideo:
    """Validate a body of a scene. Raises InvalidRequest."""
    if scene == "realman":
        return _real_man(_REALMAN.read(body))
    return _mix_cut(_MIXCUT.read(body)) if scene == "mixcut" else _news(_NEWS.read(body))


def _real_man(read: RealManBody) -> requests.ClipVideo:
    return requests.ClipVideo(
        **_shared(read),
        scene="realman",
        asked_duration=read.duration,
        source_video_url=required_url("source_video_url", read.source_video_url),
        materials=_materials(read.materials),
        preprocess=read.preprocess,
    )


def _mix_cut(read: MixCutBody) -> requests.ClipVideo:
    return requests.ClipVideo(
        **_shared(read),
        scene="mixcut",
        asked_duration=read.duration,
        audio_url=required_url("audio_url", read.audio_url),
        materials=_materials(read.materials, required=True),
    )


def _news(read: NewsBody) -> requests.ClipVideo:
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


def _shared(read: ClipBody) -> dict[str, Any]:
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


def _music(bgm: ClipMusic) -> requests.BackgroundMusic:
    link = required_url("bgm.url", bgm.url) if bgm.mode == "custom" else None
    return requests.BackgroundMusic(mode=bgm.mode, url=link, volume=bgm.volume)


def _materials(
    given: list[ClipMaterial] | None, *, required: bool = False
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
