"""Requests for digital humans: a speaking avatar, lip-sync, replaced people (reference 7.5).

`avatar` and `voice` are still the client's references; the submission
replaces them with the upstream's ids.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw

from channels.media.requests import AvatarVideo, LipSyncVideo, MotionVideo
from channels.storable_text import STORABLE, STORABLE_WORDS
from gw.media import fields
from gw.media.general_videos import VIDEO_WORDS, VideoBody
from gw.media.video_content import CONTENT_ITEM, read_items

TEXT_CHARACTERS_MAX = 10_000
TITLE_CHARACTERS_MAX = 20
FACES_MAX = 7
QUALITIES = ("fast", "standard", "max")

_URL_WORDS = "an http or https URL"


class SpeakingBody(VideoBody, gc=False, kw_only=True):
    """A speaking avatar: `dh-avatar`."""

    avatar: Annotated[
        fields.Reference,
        Meta(description="A preset avatar, or an avatar of the account's own that is ready."),
    ]
    audio_url: Annotated[
        str | None, Meta(description="An http or https URL of the recording that is spoken.")
    ] = None
    voice: Annotated[
        fields.Reference | None,
        Meta(description="The voice that speaks `text`: a preset or the account's own."),
    ] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX)] | None,
        Meta(description="What is spoken, in place of a recording."),
    ] = None
    title: Annotated[
        Annotated[str, Meta(max_length=TITLE_CHARACTERS_MAX, pattern=STORABLE)] | None,
        Meta(description="The film's title."),
    ] = None


class LipSyncBody(VideoBody, gc=False, kw_only=True):
    """A film whose speaker says something else: `dh-lipsync` and its better tiers."""

    source_video_url: Annotated[
        str | None, Meta(description="Required: an http or https URL of the film.")
    ] = None
    audio_url: Annotated[
        str | None, Meta(description="Required: an http or https URL of the recording.")
    ] = None


class MotionBody(VideoBody, gc=False, kw_only=True):
    """A film whose people are replaced: `dh-motion`."""

    content: Annotated[
        list[Raw],
        Meta(
            description=f"1 to {FACES_MAX} portraits, items of the kind `image_url`.",
            extra_json_schema={"items": CONTENT_ITEM},
        ),
    ]
    source_video_url: Annotated[
        str | None, Meta(description="Required: an http or https URL of the film.")
    ] = None
    face_count: Annotated[
        Annotated[int, Meta(ge=1, le=FACES_MAX)] | None,
        Meta(
            description="How many people are replaced; without it as many as there are portraits."
        ),
    ] = None


_AVATAR = fields.FieldTable(
    SpeakingBody,
    VIDEO_WORDS
    | {
        "avatar": fields.REFERENCE_WORDS,
        "audio_url": _URL_WORDS,
        "voice": fields.REFERENCE_WORDS,
        "text": f"a string of 1 to {TEXT_CHARACTERS_MAX} characters",
        "title": f"a string of at most {TITLE_CHARACTERS_MAX} characters {STORABLE_WORDS}",
    },
)
_LIPSYNC = fields.FieldTable(
    LipSyncBody, VIDEO_WORDS | {"source_video_url": _URL_WORDS, "audio_url": _URL_WORDS}
)
_MOTION = fields.FieldTable(
    MotionBody,
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
        audio_url=fields.url_if_any("audio_url", read.audio_url),
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
        source_video_url=fields.required_url("source_video_url", read.source_video_url),
        audio_url=fields.required_url("audio_url", read.audio_url),
    )


def read_motion_video(body: bytes) -> MotionVideo:
    """Validate a body of `dh-motion`. Raises InvalidRequest.

    The number of faces is not compared with that of the portraits.
    """
    read = _MOTION.read(body)
    shared = _shared(read)
    if not 1 <= len(read.content) <= FACES_MAX:
        fields.refuse("content:", f"expected 1 to {FACES_MAX} portraits, found {len(read.content)}")
    portraits = read_items(read.content, embeds_images=False)
    for index, item in enumerate(portraits):
        if item.type != "image_url":
            fields.refuse(f"content[{index}].type:", f"expected image_url, found {item.type}")
    if read.resolution is not None:
        fields.check_one_of("resolution", read.resolution, QUALITIES)
    return MotionVideo(
        **shared,
        source_video_url=fields.required_url("source_video_url", read.source_video_url),
        content=portraits,
        face_count=len(portraits) if read.face_count is None else read.face_count,
    )


def _check_speech(read: SpeakingBody) -> None:
    """Require exactly one of a recording and a text with its voice."""
    if read.audio_url is not None:
        if read.voice is not None or read.text is not None:
            fields.refuse(
                "audio_url", "cannot go with voice and text: expected the one or the others"
            )
    elif read.voice is None and read.text is None:
        fields.require("audio_url", "a recording, or voice and text in its place")
    elif read.voice is None:
        fields.require("voice", "a voice for the text to be spoken in")
    elif read.text is None:
        fields.require("text", "what the voice is to say")


def _shared(read: VideoBody) -> dict[str, Any]:
    """Return the fields of every kind; the duration is required."""
    if read.duration is None:
        fields.require("duration", fields.SECONDS_WORDS)
    return {
        "model": read.model,
        "duration": read.duration,
        "asked_duration": read.duration,
        "resolution": read.resolution,
        "ratio": read.ratio,
        "watermark": read.watermark,
        "portrait_auth": read.portrait_auth,
    }
