"""Requests for general videos: the fields of each model, those sent, and those withheld.

Contract for media §4. The id of the model determines the kind of video; clips are in `clips.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from channels.dialects.faults import described
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject
from channels.media.canonical import (
    AvatarVideo,
    ClipVideo,
    ContentItem,
    ContentType,
    GeneralVideo,
    LipSyncVideo,
    MotionVideo,
    Video,
)
from channels.registry import VideoSpec, VideoTier
from channels.storable_text import STORABLE, STORABLE_WORDS
from gw.media.clips import SCENES, read_clip
from gw.media.reading import (
    FLAG_WORDS,
    MODEL_WORDS,
    REFERENCE_WORDS,
    SECONDS_WORDS,
    WORD_WORDS,
    FieldTable,
    Model,
    Reference,
    Seconds,
    Word,
    check_one_of,
    is_embedded_image,
    refuse,
    require,
    required_url,
    url,
    url_if_any,
)

# The items of `content`: texts, and links to images, films and sounds (spec: Video generation).
#
# An item is sent unchanged, with unknown members. So duplicate members are refused, because an
# upstream may read the other one.

ITEMS_MAX = 100
IMAGES_MAX = 10

TYPES: tuple[ContentType, ...] = get_args(ContentType)
_TYPE_WORDS = f"one of {', '.join(TYPES)}"


def read_items(items: list[Raw], *, embeds_images: bool) -> tuple[ContentItem, ...]:
    """Validate the items; `embeds_images` allows `data:` URLs. Raises InvalidRequest."""
    if len(items) > ITEMS_MAX:
        refuse("content", f"holds more than {ITEMS_MAX} items")
    return tuple(
        _item(f"content[{index}]", raw, embeds_images=embeds_images)
        for index, raw in enumerate(items)
    )


def role_of(item: ContentItem) -> str | None:
    """Return the `role` of a validated item, or None."""
    return msgspec.json.decode(item.object, type=_Role).role


class _Role(msgspec.Struct, gc=False):
    role: str | None = None


def _item(at: str, raw: Raw, *, embeds_images: bool) -> ContentItem:
    members = _object(at, raw)
    kind = _text(f"{at}.type", members, "type", _TYPE_WORDS)
    if kind not in TYPES:
        refuse(f"{at}.type:", f"expected {_TYPE_WORDS}, found {described(kind)}")
    _check_role(at, members)
    if kind == "text":
        return ContentItem(kind, _text(f"{at}.text", members, "text", "a string"), raw)
    inner_at = f"{at}.{kind}"
    if kind not in members.raw:
        require(inner_at, "an object with a url")
    inner = _object(inner_at, members.raw[kind])
    link = _text(f"{inner_at}.url", inner, "url", "an http or https URL")
    if not (kind == "image_url" and embeds_images and is_embedded_image(link)):
        url(f"{inner_at}.url", link)
    return ContentItem(kind, link, raw)


def _check_role(at: str, members: JsonObject) -> None:
    role: Any = _value(members, "role")
    if role is not None and not isinstance(role, str):
        refuse(f"{at}.role:", f"expected a string, found {described(role)}")


def _object(at: str, raw: Raw) -> JsonObject:
    try:
        return JsonObject.parse(bytes(raw))
    except InvalidJson as error:
        value = _decoded(raw)
        if not isinstance(value, dict):
            refuse(f"{at}:", f"expected an object, found {described(value)}")
        name = f"{at}.{error.param}" if error.param else at
        raise InvalidRequest(f"{at}: {error.message}", name) from None


def _text(at: str, members: JsonObject, name: str, words: str) -> str:
    value = _value(members, name)
    if value is None:
        require(at, words)
    if not isinstance(value, str):
        refuse(f"{at}:", f"expected {words}, found {described(value)}")
    return value


def _value(members: JsonObject, name: str) -> Any:
    raw = members.raw.get(name)
    return None if raw is None else _decoded(raw)


def _decoded(raw: Raw) -> Any:
    """Return the value of JSON; an undecodable one becomes another value that is no string."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a number out of range
        return 0
    except RecursionError:
        return []


# The resolutions of a tier; only the lite one requires one.
RESOLUTIONS: Mapping[VideoTier, tuple[str, ...]] = {
    "lite": ("720p", "1080p"),
    "mini": ("480p", "720p"),
    "fast": ("480p", "720p", "1080p"),
    "full": ("480p", "720p", "1080p", "2k", "4k"),
}
MINI_SECONDS = (4, 15)
EXTEND = "extend"
EXTEND_SECONDS = (2, 10)
REFERENCE_ROLES = ("reference_image", "reference_video", "reference_audio")

# Fields of other kinds, refused in a general video.
_OTHER_KINDS = frozenset(
    (
        *("avatar", "audio_url", "voice", "text", "title", "source_video_url", "face_count"),
        *("style_id", "language", "materials", "material_composition", "preprocess", "bgm"),
        *("cover_url", "introduce_card"),
    )
)
# Fields that are never sent upstream.
_OURS = frozenset(("callback_url", "portrait_auth"))


class VideoBody(Struct, gc=False, kw_only=True):
    """The fields common to every kind of video."""

    model: Model
    duration: Seconds | None = None
    resolution: Word | None = None
    ratio: Word | None = None
    watermark: bool | None = None
    portrait_auth: bool | None = None


VIDEO_WORDS = {
    "model": MODEL_WORDS,
    "duration": SECONDS_WORDS,
    "resolution": WORD_WORDS,
    "ratio": WORD_WORDS,
    "watermark": FLAG_WORDS,
    "portrait_auth": FLAG_WORDS,
}


class _Body(VideoBody, gc=False, kw_only=True):
    content: list[Raw]
    video_mode: Word | None = None


_TABLE = FieldTable(
    _Body,
    VIDEO_WORDS | {"content": "an array of items", "video_mode": WORD_WORDS},
)
_KNOWN = frozenset(_Body.__struct_fields__)


def read_general(body: bytes, spec: VideoSpec) -> GeneralVideo:
    """Validate a body for a model of this specification. Raises InvalidRequest."""
    members = _TABLE.members(body)
    read = _TABLE.fields(members)
    content = read_items(read.content, embeds_images=not spec.real_person)
    _check_content(content, spec)
    _check_duration(read, spec)
    _check_resolution(read.resolution, spec)
    request = GeneralVideo(
        model=read.model,
        content=content,
        duration=read.duration,
        asked_duration=read.duration,
        resolution=read.resolution,
        ratio=read.ratio,
        watermark=read.watermark,
        video_mode=read.video_mode,
        others={
            name: raw
            for name, raw in members.raw.items()
            if name not in _KNOWN and name not in _OTHER_KINDS and name not in _OURS
        },
        registers_images=spec.real_person,
        portrait_auth=read.portrait_auth,
    )
    return _withheld(request) if spec.third_party else request


def _check_content(content: tuple[ContentItem, ...], spec: VideoSpec) -> None:
    if not any(item.type == "text" and item.value.strip() for item in content):
        require("content", "an item {type: text, text} that says something")
    if sum(item.type == "image_url" for item in content) > IMAGES_MAX:
        refuse("content", f"holds more than {IMAGES_MAX} images")
    for index, item in enumerate(content):
        at = f"content[{index}]"
        if spec.multimodal:
            continue
        if item.type == "audio_url":
            refuse(f"{at}.type:", "this model takes no audio_url")
        if item.type == "video_url" and not spec.third_party:
            refuse(f"{at}.type:", "this model takes no video_url")
        if (role := role_of(item)) in REFERENCE_ROLES:
            refuse(f"{at}.role:", f"this model takes no {role}")


def _check_duration(read: _Body, spec: VideoSpec) -> None:
    if read.duration is None:
        return
    if spec.tier == "mini":
        _check_range(read.duration, MINI_SECONDS, "for this model")
    if read.video_mode == EXTEND:
        _check_range(read.duration, EXTEND_SECONDS, f"with video_mode {EXTEND}")


def _check_range(duration: float, seconds: tuple[int, int], where: str) -> None:
    least, most = seconds
    if not least <= duration <= most:
        refuse("duration:", f"expected {least} to {most} seconds {where}, found {duration}")


def _check_resolution(resolution: str | None, spec: VideoSpec) -> None:
    if spec.tier is None:
        return
    allowed = RESOLUTIONS[spec.tier]
    if resolution is not None:
        check_one_of("resolution", resolution, allowed)
    elif spec.tier == "lite":
        require("resolution", " or ".join(allowed))


def _withheld(request: GeneralVideo) -> GeneralVideo:
    """Return the request without fields determined by the film's source.

    Spec: Video generation, rule 1.
    """
    types = {item.type for item in request.content}
    if "video_url" in types:
        duration = request.duration if request.video_mode == EXTEND else None
        return replace(request, ratio=None, resolution=None, duration=duration)
    return replace(request, ratio=None) if "image_url" in types else request


# Requests for digital humans: a speaking avatar, lip-sync, replaced people.
#
# Contract for media §4. `avatar` and `voice` are still the client's references; the submission
# replaces them with the upstream's ids.

TEXT_CHARACTERS_MAX = 10_000
TITLE_CHARACTERS_MAX = 20
FACES_MAX = 7
QUALITIES = ("fast", "standard", "max")

_URL_WORDS = "an http or https URL"


class _Avatar(VideoBody, gc=False, kw_only=True):
    avatar: Reference
    audio_url: str | None = None
    voice: Reference | None = None
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX)] | None = None
    title: Annotated[str, Meta(max_length=TITLE_CHARACTERS_MAX, pattern=STORABLE)] | None = None


class _LipSync(VideoBody, gc=False, kw_only=True):
    source_video_url: str | None = None
    audio_url: str | None = None


class _Motion(VideoBody, gc=False, kw_only=True):
    content: list[Raw]
    source_video_url: str | None = None
    face_count: Annotated[int, Meta(ge=1, le=FACES_MAX)] | None = None


_AVATAR = FieldTable(
    _Avatar,
    VIDEO_WORDS
    | {
        "avatar": REFERENCE_WORDS,
        "audio_url": _URL_WORDS,
        "voice": REFERENCE_WORDS,
        "text": f"a string of 1 to {TEXT_CHARACTERS_MAX} characters",
        "title": f"a string of at most {TITLE_CHARACTERS_MAX} characters {STORABLE_WORDS}",
    },
)
_LIPSYNC = FieldTable(
    _LipSync, VIDEO_WORDS | {"source_video_url": _URL_WORDS, "audio_url": _URL_WORDS}
)
_MOTION = FieldTable(
    _Motion,
    VIDEO_WORDS
    | {
        "content": f"an array of 1 to {FACES_MAX} portraits",
        "source_video_url": _URL_WORDS,
        "face_count": f"an integer from 1 to {FACES_MAX}",
    },
)


def read_avatar_video(body: bytes) -> AvatarVideo:
    """Validate a body of `dh-avatar`. Raises InvalidRequest."""
    read = _AVATAR.read(body)
    shared = _shared(read)
    _check_speech(read)
    return AvatarVideo(
        **shared,
        avatar=read.avatar,
        audio_url=url_if_any("audio_url", read.audio_url),
        voice=read.voice,
        text=read.text,
        title=read.title,
    )


def read_lipsync_video(body: bytes) -> LipSyncVideo:
    """Validate a body of `dh-lipsync` and its better tiers. Raises InvalidRequest."""
    read = _LIPSYNC.read(body)
    shared = _shared(read)
    return LipSyncVideo(
        **shared,
        source_video_url=required_url("source_video_url", read.source_video_url),
        audio_url=required_url("audio_url", read.audio_url),
    )


def read_motion_video(body: bytes) -> MotionVideo:
    """Validate a body of `dh-motion`. Raises InvalidRequest.

    The number of faces is not compared with that of the portraits.
    """
    read = _MOTION.read(body)
    shared = _shared(read)
    if not 1 <= len(read.content) <= FACES_MAX:
        refuse("content:", f"expected 1 to {FACES_MAX} portraits, found {len(read.content)}")
    portraits = read_items(read.content, embeds_images=False)
    for index, item in enumerate(portraits):
        if item.type != "image_url":
            refuse(f"content[{index}].type:", f"expected image_url, found {item.type}")
    if read.resolution is not None:
        check_one_of("resolution", read.resolution, QUALITIES)
    return MotionVideo(
        **shared,
        source_video_url=required_url("source_video_url", read.source_video_url),
        content=portraits,
        face_count=len(portraits) if read.face_count is None else read.face_count,
    )


def _check_speech(read: _Avatar) -> None:
    """Require exactly one of a recording and a text with its voice."""
    if read.audio_url is not None:
        if read.voice is not None or read.text is not None:
            refuse("audio_url", "cannot go with voice and text: expected the one or the others")
    elif read.voice is None and read.text is None:
        require("audio_url", "a recording, or voice and text in its place")
    elif read.voice is None:
        require("voice", "a voice for the text to be spoken in")
    elif read.text is None:
        require("text", "what the voice is to say")


def _shared(read: VideoBody) -> dict[str, Any]:
    """Return the fields of every kind; the duration is required."""
    if read.duration is None:
        require("duration", SECONDS_WORDS)
    return {
        "model": read.model,
        "duration": read.duration,
        "asked_duration": read.duration,
        "resolution": read.resolution,
        "ratio": read.ratio,
        "watermark": read.watermark,
        "portrait_auth": read.portrait_auth,
    }


# The kind of video of a model, by its id, and the validation of its requests.

AVATAR, LIPSYNC, MOTION, CLIP = "dh-avatar", "dh-lipsync", "dh-motion", "clip-"


def read_video(body: bytes, model_id: str, spec: VideoSpec) -> Video | None:
    """Validate a body for a model of this specification. Raises InvalidRequest.

    Returns None for an id of no known kind.

    The request has the model's canonical id until a channel is chosen.
    """
    if model_id in SCENES:
        return read_clip(body, SCENES[model_id])
    if model_id == AVATAR:
        return read_avatar_video(body)
    if model_id.startswith(LIPSYNC):
        return read_lipsync_video(body)
    if model_id == MOTION:
        return read_motion_video(body)
    if model_id.startswith(("dh-", CLIP)):
        return None
    return read_general(body, spec)


# The milliseconds of film that are held and billed (contract for media §3).
#
# `actors/wallet/piece_prices.py` prices them.

GENERAL_SECONDS = 12
CLIP_SECONDS = 300
# The resolution that prices `dh-motion` if the request has none.
MOTION_RESOLUTION = "standard"


def held_milliseconds(request: Video) -> int:
    """Return the milliseconds held before the request is sent upstream."""
    asked = request.asked_duration
    if isinstance(request, ClipVideo):
        seconds = CLIP_SECONDS if request.scene == "news" else max(CLIP_SECONDS, asked or 0)
    else:
        seconds = GENERAL_SECONDS if asked is None else asked
    return _milliseconds(seconds)


def unreported_milliseconds(request: Video) -> int:
    """Return the milliseconds billed if the upstream does not report the length."""
    if request.asked_duration is None:
        return held_milliseconds(request)
    return _milliseconds(request.asked_duration)


def priced_resolution(request: Video) -> str | None:
    """Return the resolution that may have a price of its own."""
    if isinstance(request, MotionVideo) and request.resolution is None:
        return MOTION_RESOLUTION
    return request.resolution


def unit_count(milliseconds: int) -> int:
    """Return the whole seconds of a row: rounded half up, at least one."""
    return max((milliseconds + 500) // 1000, 1)


def _milliseconds(seconds: float) -> int:
    """Return milliseconds, always above 0."""
    exact = Decimal(str(seconds)) * 1000
    return max(int(exact.to_integral_value(ROUND_HALF_UP)), 1)
