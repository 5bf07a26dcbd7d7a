"""A media request in the call log: its settings, without its content.

Of texts, links and files only lengths and numbers; see `channels/dialects/validation.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from channels.dialects.logged_parameters import counts, setting
from channels.media import requests

# Fields that are settings, by their names for clients.
_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("resolution", "ratio", "watermark", "video_mode")},
        **{name: name for name in ("avatar", "voice", "face_count", "style_id", "language")},
        **{name: name for name in ("material_composition", "preprocess", "instrumental")},
        **{name: name for name in ("response_format", "speed", "source_kind")},
        "asked_duration": "duration",
        "is_async": "async",
    }
)
# Fields written by a person, logged by their length.
_TEXTS = ("prompt", "lyrics", "input", "text")


def parameters_of(request: requests.Submission) -> dict[str, str]:
    """Return the parameters of a validated request, as text."""
    parameters: dict[str, str] = {}
    for field, name in _SETTINGS.items():
        value = getattr(request, field, None)
        if isinstance(value, bool):
            parameters[name] = "true" if value else "false"
        elif value is not None:
            parameters[name] = setting(value) if isinstance(value, str) else str(value)
    lengths = {f"{name}_characters": len(getattr(request, name, None) or "") for name in _TEXTS}
    return parameters | counts(**lengths) | counts(**_pieces(request))


def _pieces(request: requests.Submission) -> dict[str, int]:
    """Return the numbers of files in a request."""
    if isinstance(request, requests.GeneralVideo | requests.MotionVideo):
        found = Counter(item.type for item in request.content)
        return {
            "texts": found["text"],
            "images": found["image_url"],
            "videos": found["video_url"],
            "audios": found["audio_url"],
        }
    return {"materials": len(request.materials)} if isinstance(request, requests.ClipVideo) else {}
