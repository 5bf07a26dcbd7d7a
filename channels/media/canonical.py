"""Requests for media, and the replies of upstreams, in the gateway's own form.

Replies to a submit: Accepted, Done, Refused, Failed or Unknown. To a poll: Polled, RateLimited,
NotFound, Trouble or Unusable. To a request for a list: CatalogValue, or the failures of a submit.
All texts are bounded and storable (`channels/storable_text.py`), and not redacted yet
(`channels/redaction.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

T = TypeVar("T")

# --- Results ---


class VideoResult(Struct, frozen=True, kw_only=True, tag="video"):
    """A video. `url` None: the upstream has no link for it, and the gateway serves it itself.

    `expires_at` is in Unix seconds; None: neither the upstream nor the link states it.
    `output_files` are the upstream's JSON values. `milliseconds` is the billed length; None before
    that is known.
    """

    url: str | None
    expires_at: float | None = None
    output_files: list[Any] | None = None
    milliseconds: int | None = None


class Track(Struct, frozen=True, kw_only=True):
    """A song. Members that the upstream omits are None."""

    clip_id: str | None = None
    title: str | None = None
    duration_sec: int | float | None = None
    audio_url: str | None = None
    image_url: str | None = None
    lyrics: str | None = None


class MusicResult(Struct, frozen=True, kw_only=True, tag="music"):
    """Songs in the upstream's order, at least one with an audio link."""

    tracks: tuple[Track, ...]
    expires_at: float | None = None


class SpeechResult(Struct, frozen=True, kw_only=True, tag="speech"):
    """A recording behind a link."""

    url: str
    expires_at: float | None = None


class AvatarResult(Struct, frozen=True, kw_only=True, tag="avatar"):
    """An avatar that is ready; `upstream_id` is its id in videos."""

    upstream_id: str


class VoiceResult(Struct, frozen=True, kw_only=True, tag="voice"):
    """A voice that is ready; `upstream_id` is its id in speech and videos."""

    upstream_id: str


class Segment(Struct, frozen=True, kw_only=True):
    """A segment of a script with its start and end in seconds."""

    start: int | float | None
    end: int | float | None
    text: str


class TranscriptResult(Struct, frozen=True, kw_only=True, tag="transcript"):
    """A script."""

    text: str
    title: str | None = None
    language: str | None = None
    duration_sec: int | float | None = None
    segments: tuple[Segment, ...] = ()


class SpeechAudio(Struct, frozen=True, kw_only=True, tag="speech_audio"):
    """A recording as the upstream sent it: bytes, or their hexadecimal digits."""

    content_type: str
    data: bytes
    is_hex: bool = False

    def pieces(self, size: int = 256 * 1024) -> Iterator[bytes]:
        """Yield the recording in pieces of `size` bytes, so that decoding one is quick."""
        step = size * 2 if self.is_hex else size
        view = memoryview(self.data)
        for start in range(0, len(view), step):
            piece = bytes(view[start : start + step])
            yield bytes.fromhex(piece.decode("ascii")) if self.is_hex else piece


TaskResult: TypeAlias = VideoResult | MusicResult | SpeechResult | AvatarResult
ImmediateResult: TypeAlias = VoiceResult | TranscriptResult | SpeechAudio

# --- Replies to a submit ---


class Accepted(Struct, frozen=True):
    """The upstream has begun a task with this id."""

    upstream_id: str


class Done(Struct, frozen=True):
    """The upstream has completed the request at once."""

    result: ImmediateResult


class Refused(Struct, frozen=True, kw_only=True):
    """The upstream refused the request: a 4xx to pass on, no other channel is tried.

    `status` is 400 to 499, the upstream's own or its dialect's equivalent. `is_rejected`: the
    material of the result was refused, in a request before the submit.
    """

    status: int
    message: str | None = None
    retry_after: str | None = None
    is_rejected: bool = False


class Failed(Struct, frozen=True, kw_only=True):
    """The upstream failed, and made nothing: the next channel may be tried.

    `status` is 500 to 599; of a submit not 504. `is_final`: it accepted the request and failed
    later, so that no other channel is tried. `is_unreachable`: no part of a response was received.
    """

    status: int
    message: str | None = None
    retry_after: str | None = None
    is_final: bool = False
    is_unreachable: bool = False


class Unknown(Struct, frozen=True, kw_only=True):
    """It is unknown whether the upstream accepted the request: it is not repeated.

    `status` is the client's: 504 for an upstream's 504, 502 for an unusable response. `reason` is
    for the log.
    """

    status: Literal[502, 504]
    reason: str


SubmitReply: TypeAlias = Accepted | Done | Refused | Failed | Unknown

# --- Replies to a poll ---

# The states of the state tables. "cancelled" and "expired" are the upstream's decisions.
TaskState: TypeAlias = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]


class TaskError(Struct, frozen=True, kw_only=True):
    """Why a task did not succeed: the upstream's code and message, or the gateway's defaults."""

    code: str
    message: str


class Polled(Struct, frozen=True, kw_only=True):
    """The upstream reported the state of the task.

    `state` None: an unknown one, which changes nothing. "succeeded" always has a `result`, other
    ends have an `error`: a success without a result is "failed", `no_result`. `seconds_ms` is the
    real length, above 0; `progress` 0 to 100.
    """

    state: TaskState | None
    word: str
    progress: int | None = None
    result: TaskResult | None = None
    seconds_ms: int | None = None
    error: TaskError | None = None

    def __post_init__(self) -> None:
        assert (self.state == "succeeded") == (self.result is not None)
        assert (self.state in ("failed", "cancelled", "expired")) == (self.error is not None)


class RateLimited(Struct, frozen=True):
    """The upstream requests a later poll: after 0 to 300 seconds, if it states a delay."""

    retry_after_seconds: float | None = None


class NotFound(Struct, frozen=True):
    """The upstream does not know the task."""


class Trouble(Struct, frozen=True, kw_only=True):
    """The upstream reported no state of the task. `reason` is for the log."""

    reason: str
    status: int | None = None


class Unusable(Struct, frozen=True, kw_only=True):
    """The response is a success that can never be used. `reason` is for the log."""

    reason: str


PollReply: TypeAlias = Polled | RateLimited | NotFound | Trouble | Unusable

# --- Replies to a request for a list ---


class Template(Struct, frozen=True, kw_only=True):
    """A template in the list."""

    id: str
    title: str | None = None
    cover: str | None = None
    has_title: bool = True
    has_persona: bool = True


class Canvas(Struct, frozen=True, kw_only=True):
    """The size of a template's picture, in pixels."""

    width: int | None = None
    height: int | None = None
    ratio: str | None = None


class Layer(Struct, frozen=True, kw_only=True):
    """One layer of a template."""

    id: str | None = None
    type: str | None = None
    name: str | None = None
    editable: bool = False


class TemplateDetail(Template, frozen=True, kw_only=True):
    """A whole template."""

    scene: str | None = None
    canvas: Canvas | None = None
    layers: tuple[Layer, ...] = ()


class PresetAvatar(Struct, frozen=True, kw_only=True):
    """An avatar that all accounts may use."""

    id: str
    name: str


class PresetVoice(Struct, frozen=True, kw_only=True):
    """A voice that all accounts may use."""

    id: str
    name: str
    language: str | None = None
    preview_url: str | None = None


class CatalogValue(Struct, Generic[T], frozen=True):
    """A list or an entry of a catalog."""

    value: T


# For an unknown template: Refused, 404.
CatalogReply: TypeAlias = CatalogValue[T] | Refused | Failed


# Checked requests.
#
# `gw/media` makes these from a client's body; `model` is the upstream's name of the model, `avatar`
# and `voice` are the upstream's ids. A field that is None is not sent. Numbers are as the client
# sent them.

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
