"""The bodies of submits, and their paths."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from channels.media import requests

AVATAR_VIDEO = "/v1/virtualman/video"
CLIPS: Mapping[requests.ClipScene, str] = MappingProxyType(
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

Asked = tuple[str, dict[str, object]]


def asked_body(submission: requests.Submission) -> Asked | None:
    """Return path and body of a submit; None if this upstream does not support it."""
    match submission:
        case requests.AvatarVideo():
            return AVATAR_VIDEO, _avatar_video(submission)
        case requests.ClipVideo():
            return CLIPS[submission.scene], _clip(submission)
        case requests.AvatarRequest(source_kind="video"):
            return VIDEO_AVATAR, {"videoUrl": submission.source_url}
        case requests.AvatarRequest():
            return IMAGE_AVATAR, {"imageUrl": submission.source_url}
        case requests.VoiceRequest():
            return VOICE, _voice(submission)
        case _:
            return None


def _without_nulls(**fields: object) -> dict[str, object]:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _avatar_video(request: requests.AvatarVideo) -> dict[str, object]:
    return _without_nulls(
        virtualmanId=request.avatar,
        audioUrl=request.audio_url,
        text=request.text,
        speakerId=request.voice,
    )


def _voice(request: requests.VoiceRequest) -> dict[str, object]:
    return _without_nulls(
        audioUrl=request.audio_url,
        model=request.model,
        language=LANGUAGE,
        demoText=request.text,
    )


def _clip(request: requests.ClipVideo) -> dict[str, object]:
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


def _music(bgm: requests.BackgroundMusic) -> dict[str, object]:
    return _without_nulls(audioSwitch=bgm.mode != "none", audioUrl=bgm.url, volume=bgm.volume)
