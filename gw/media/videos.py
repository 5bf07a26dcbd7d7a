"""The kind of video of a model, by its id, and the validation of its requests.

Reference 7.4, 7.5.
"""

from __future__ import annotations

from channels.media.requests import Video
from channels.registry import VideoSpec
from gw.media.clips import SCENES, read_clip
from gw.media.digital_humans import read_avatar_video, read_lipsync_video, read_motion_video
from gw.media.general_videos import read_general

AVATAR, LIPSYNC, MOTION, CLIP = "dh-avatar", "dh-lipsync", "dh-motion", "clip-"


def read_video(body: bytes, model_id: str, spec: VideoSpec) -> Video | None:
    """Validate a body for a model of this kind. Raises InvalidRequest.

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
