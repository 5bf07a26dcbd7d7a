"""Requests for media, checked, in the gateway's own form.

`gw/media` makes these from a client's body; `model` is the upstream's name of the model, `avatar`
and `voice` are the upstream's ids. A field that is None is not sent. Numbers are as the client
sent them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

ContentType: TypeAlias = Literal["text", "image_url", "video_url", "audio_url"]
MaterialType: TypeAlias = Literal["image", "video"]
ClipScene: TypeAlias = Literal["realman", "mixcut", "news"]
AvatarSource: TypeAlias = Literal["image", "video"]
AudioFormat: TypeAlias = Literal["mp3", "wav", "opus", "aac", "flac", "pcm"]

_NOTHING: Mapping[str, Raw] = {}
_EMPTY = Raw(b"{}")


class ContentItem(Struct, frozen=True):
    """One item of `content`: its text or its URL, and the client's JSON object."""

    type: ContentType
    value: str
    object: Raw

    def with_url(self, url: str) -> ContentItem:
        """Return the same item with another URL; its other members are unchanged."""
        members = msgspec.json.decode(self.object, type=dict[str, Raw])
        inner = msgspec.json.decode(members[self.type], type=dict[str, Raw])
        inner["url"] = Raw(msgspec.json.encode(url))
        members[self.type] = Raw(msgspec.json.encode(inner))
        return ContentItem(self.type, url, Raw(msgspec.json.encode(members)))


class VideoRequest(Struct, frozen=True, kw_only=True):
    """The parameters of every kind of video.

    `duration` is in seconds. `asked_duration` is the client's own, which is held, and billed by
    default; it and `portrait_auth` are not sent.
    """

    model: str
    duration: int | float | None = None
    resolution: str | None = None
    ratio: str | None = None
    watermark: bool | None = None
    asked_duration: int | float | None = None
    portrait_auth: bool | None = None


class GeneralVideo(VideoRequest, frozen=True, kw_only=True):
    """A video from texts, images, videos and sounds.

    `others` are unknown members, as JSON text. `registers_images`: each image is first registered
    with the upstream, with `portrait_auth`.
    """

    content: tuple[ContentItem, ...]
    video_mode: str | None = None
    others: Mapping[str, Raw] = _NOTHING
    registers_images: bool = False

    @property
    def may_be_long(self) -> bool:
        """Whether its content may grow with its body: texts, images that are inline links.

        Images that are registered are links of a bounded length.
        """
        return not self.registers_images

    def without_body(self) -> GeneralVideo:
        """Return the same without what grows with its body: only the types of its items."""
        items = tuple(ContentItem(item.type, "", _EMPTY) for item in self.content)
        return replace(self, content=items, others=_NOTHING)

    def texts(self) -> list[str]:
        """Return the texts of its content, in order."""
        return [item.value for item in self.content if item.type == "text"]

    def images(self) -> list[str]:
        """Return the image URLs of its content, in order."""
        return [item.value for item in self.content if item.type == "image_url"]


class AvatarVideo(VideoRequest, frozen=True, kw_only=True):
    """A video of an avatar that speaks a recording, or a text in a voice."""

    avatar: str
    audio_url: str | None = None
    voice: str | None = None
    text: str | None = None
    title: str | None = None


class LipSyncVideo(VideoRequest, frozen=True, kw_only=True):
    """A video whose speaker's lips follow a recording."""

    source_video_url: str
    audio_url: str


class MotionVideo(VideoRequest, frozen=True, kw_only=True):
    """A video whose people are replaced by portraits; `content` has only images."""

    source_video_url: str
    content: tuple[ContentItem, ...]
    face_count: int


class Material(Struct, frozen=True, kw_only=True):
    """An image or a video that is cut in."""

    type: MaterialType
    file_url: str
    sound_switch: bool | None = None


class BackgroundMusic(Struct, frozen=True, kw_only=True):
    """The music of a clip; `url` belongs to `custom`."""

    mode: Literal["auto", "none", "custom"] | None = None
    url: str | None = None
    volume: int | float | None = None  # 0 to 1


class ClipVideo(VideoRequest, frozen=True, kw_only=True):
    """A video cut by a template. `duration` is set if the scene sends it (news)."""

    scene: ClipScene
    style_id: str
    title: str | None = None
    language: str | None = None
    source_video_url: str | None = None
    audio_url: str | None = None
    materials: tuple[Material, ...] = ()
    material_composition: Literal["random", "order"] | None = None
    preprocess: Literal["roughCut", "sliceMerge"] | None = None
    bgm: BackgroundMusic | None = None
    cover_url: str | None = None
    introduce_card: Mapping[str, str] | None = None


class MusicRequest(Struct, frozen=True, kw_only=True):
    """Two songs from an idea or from lyrics."""

    model: str
    prompt: str | None = None
    lyrics: str | None = None
    title: str | None = None
    tags: str | None = None
    negative_tags: str | None = None
    instrumental: bool | None = None


class SpeechRequest(Struct, frozen=True, kw_only=True):
    """A text to speak: at once, or with `is_async` as a task."""

    model: str
    input: str
    voice: str
    response_format: AudioFormat = "mp3"
    speed: int | float | None = None
    is_async: bool = False


class VoiceRequest(Struct, frozen=True, kw_only=True):
    """A voice to clone from a recording; `text` is spoken in a sample."""

    model: str
    name: str
    audio_url: str
    text: str | None = None


class AvatarRequest(Struct, frozen=True, kw_only=True):
    """An avatar to make from a portrait or a video."""

    name: str
    source_url: str
    source_kind: AvatarSource = "image"


class TranscriptRequest(Struct, frozen=True, kw_only=True):
    """A script to extract from a short video."""

    model: str
    url: str
    language: str | None = None


Video: TypeAlias = GeneralVideo | AvatarVideo | LipSyncVideo | MotionVideo | ClipVideo
Submission: TypeAlias = (
    Video | MusicRequest | SpeechRequest | VoiceRequest | AvatarRequest | TranscriptRequest
)
