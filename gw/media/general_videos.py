"""Requests for general videos: the fields of each model, those sent, and those withheld."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from channels.media.requests import ContentItem, GeneralVideo
from channels.registry import VideoSpec, VideoTier
from gw.media import fields
from gw.media.video_content import CONTENT_ITEM, IMAGES_MAX, read_items, role_of

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

    model: fields.Model
    duration: Annotated[
        fields.Seconds | None,
        Meta(description="Seconds; digital humans need it. Without it 12 are held for."),
    ] = None
    resolution: Annotated[
        fields.Word | None,
        Meta(description="The size of the picture, such as `720p`; tiers differ."),
    ] = None
    ratio: Annotated[
        fields.Word | None, Meta(description="The shape of the picture, such as `16:9`.")
    ] = None
    watermark: Annotated[bool | None, Meta(description="Whether the film is marked.")] = None
    portrait_auth: Annotated[
        bool | None,
        Meta(description="States that the person shown has agreed; kept, and not sent."),
    ] = None


VIDEO_WORDS = {
    "model": fields.MODEL_WORDS,
    "duration": fields.SECONDS_WORDS,
    "resolution": fields.WORD_WORDS,
    "ratio": fields.WORD_WORDS,
    "watermark": fields.FLAG_WORDS,
    "portrait_auth": fields.FLAG_WORDS,
}


class GeneralBody(VideoBody, gc=False, kw_only=True):
    """A film of any other model; members that are not listed are forwarded."""

    content: Annotated[
        list[Raw],
        Meta(
            description=f"What the film is made of: at least one text, and {IMAGES_MAX} images at"
            " most.",
            extra_json_schema={"items": CONTENT_ITEM},
        ),
    ]
    video_mode: Annotated[
        fields.Word | None,
        Meta(description="`extend`: the film in `content` goes on, else it is rewritten."),
    ] = None


_TABLE = fields.FieldTable(
    GeneralBody,
    VIDEO_WORDS | {"content": "an array of items", "video_mode": fields.WORD_WORDS},
)
_KNOWN = frozenset(GeneralBody.__struct_fields__)


def read_general(body: bytes, spec: VideoSpec) -> GeneralVideo:
    """Validate a body for a model of this kind. Raises InvalidRequest."""
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
        fields.require("content", "an item {type: text, text} that says something")
    if sum(item.type == "image_url" for item in content) > IMAGES_MAX:
        fields.refuse("content", f"holds more than {IMAGES_MAX} images")
    for index, item in enumerate(content):
        at = f"content[{index}]"
        if spec.multimodal:
            continue
        if item.type == "audio_url":
            fields.refuse(f"{at}.type:", "this model takes no audio_url")
        if item.type == "video_url" and not spec.third_party:
            fields.refuse(f"{at}.type:", "this model takes no video_url")
        if (role := role_of(item)) in REFERENCE_ROLES:
            fields.refuse(f"{at}.role:", f"this model takes no {role}")


def _check_duration(read: GeneralBody, spec: VideoSpec) -> None:
    if read.duration is None:
        return
    if spec.tier == "mini":
        _check_range(read.duration, MINI_SECONDS, "for this model")
    if read.video_mode == EXTEND:
        _check_range(read.duration, EXTEND_SECONDS, f"with video_mode {EXTEND}")


def _check_range(duration: float, seconds: tuple[int, int], where: str) -> None:
    least, most = seconds
    if not least <= duration <= most:
        fields.refuse("duration:", f"expected {least} to {most} seconds {where}, found {duration}")


def _check_resolution(resolution: str | None, spec: VideoSpec) -> None:
    if spec.tier is None:
        return
    allowed = RESOLUTIONS[spec.tier]
    if resolution is not None:
        fields.check_one_of("resolution", resolution, allowed)
    elif spec.tier == "lite":
        fields.require("resolution", " or ".join(allowed))


def _withheld(request: GeneralVideo) -> GeneralVideo:
    """Return the request without fields determined by the film's source.

    reference 7.4, rule 1.
    """
    types = {item.type for item in request.content}
    if "video_url" in types:
        duration = request.duration if request.video_mode == EXTEND else None
        return replace(request, ratio=None, resolution=None, duration=duration)
    return replace(request, ratio=None) if "image_url" in types else request
