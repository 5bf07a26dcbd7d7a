"""The bodies of the submits, and the path of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from channels.media.requests import (
    AvatarRequest,
    AvatarVideo,
    BackgroundMusic,
    ClipScene,
    ClipVideo,
    Submission,
    VoiceRequest,
)

AVATAR_VIDEO = "/v1/virtualman/video"
CLIPS: Mapping[ClipScene, str] = MappingProxyType(
    {
        "realman": "/v1/clip/video/realman_broadcast",
        "mixcut": "/v1/clip/video/broadcast_mixcut",
        "news": "/v1/clip/video/news_mixcut",
    }
)
IMAGE_AVATAR = "/v1/virtualman/image/train"
VIDEO_AVATAR = "/v1/virtualman/fast/train"
VOICE = "/v1/voice/train"
LANGUAGE = "zh-CN"

Asked = tuple[str, dict[str, Any]]


def asked(submission: Submission) -> Asked | None:
    """The path and the body of a submit; None for what this upstream does not make."""
    match submission:
        case AvatarVideo():
            return AVATAR_VIDEO, _avatar_video(submission)
        case ClipVideo():
            return CLIPS[submission.scene], _clip(submission)
        case AvatarRequest(source_kind="video"):
            return VIDEO_AVATAR, {"videoUrl": submission.source_url}
        case AvatarRequest():
            return IMAGE_AVATAR, {"imageUrl": submission.source_url}
        case VoiceRequest():
            return VOICE, _voice(submission)
        case _:
            return None


def _without_nulls(**fields: Any) -> dict[str, Any]:
    """The fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _avatar_video(request: AvatarVideo) -> dict[str, Any]:
    return _without_nulls(
        virtualmanId=request.avatar,
        audioUrl=request.audio_url,
        text=request.text,
        speakerId=request.voice,
    )


def _voice(request: VoiceRequest) -> dict[str, Any]:
    return _without_nulls(
        audioUrl=request.audio_url,
        model=request.model,
        language=LANGUAGE,
        demoText=request.text,
    )


def _clip(request: ClipVideo) -> dict[str, Any]:
    cover = request.cover_url
    process = _without_nulls(
        resourcePreprocessMethod=request.preprocess,
        materialComposition=request.material_composition,
        videoDuration=request.duration,
        firstFrameCover=None if cover is None else {"coverSwitch": True, "resultImageUrl": cover},
    )
    materials = [
        _without_nulls(type=one.type, fileUrl=one.file_url, soundSwitch=one.sound_switch)
        for one in request.materials
    ]
    music = None if request.bgm is None else {"backgroundMusic": _music(request.bgm)}
    return _without_nulls(
        styleId=request.style_id,
        videoUrl=request.source_video_url,
        audioUrl=request.audio_url,
        title=request.title,
        language=request.language,
        materials=materials or None,
        introduceCard=request.introduce_card,
        packRules=music,
        processRules=process or None,
    )


def _music(bgm: BackgroundMusic) -> dict[str, Any]:
    return _without_nulls(audioSwitch=bgm.mode != "none", audioUrl=bgm.url, volume=bgm.volume)
