"""The paths of the plain wire."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from channels.media.model import TaskKind

VIDEOS = "/v1/videos/generations"
AVATARS = "/v1/videos/avatars"
PRESET_AVATARS = "/v1/videos/avatars/presets"
TEMPLATES = "/v1/videos/clip-templates"
MUSIC = "/v1/music/generations"
SPEECH = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
TRANSCRIPTS = "/v1/transcripts/extract"
ASSETS = "/v1/assets"

TASKS: Mapping[TaskKind, str] = MappingProxyType(
    {"video": VIDEOS, "music": MUSIC, "speech": SPEECH, "avatar": AVATARS}
)
