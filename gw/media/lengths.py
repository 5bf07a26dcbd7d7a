"""How many milliseconds of film are held and paid for (contract for media §3).

Their price is `actors/wallet/unit_pricing.py`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from channels.media.requests import ClipVideo, MotionVideo, Video

GENERAL_SECONDS = 12
CLIP_SECONDS = 300
# What `dh-motion` costs by, where the request names no resolution.
MOTION_RESOLUTION = "standard"


def held_milliseconds(request: Video) -> int:
    """What is held before the upstream gets the request."""
    asked = request.asked_duration
    if isinstance(request, ClipVideo):
        seconds = CLIP_SECONDS if request.scene == "news" else max(CLIP_SECONDS, asked or 0)
    else:
        seconds = GENERAL_SECONDS if asked is None else asked
    return _milliseconds(seconds)


def unreported_milliseconds(request: Video) -> int:
    """What is paid for where the upstream does not report the real length."""
    if request.asked_duration is None:
        return held_milliseconds(request)
    return _milliseconds(request.asked_duration)


def priced_resolution(request: Video) -> str | None:
    """The resolution that may have a price of its own."""
    if isinstance(request, MotionVideo) and request.resolution is None:
        return MOTION_RESOLUTION
    return request.resolution


def unit_count(milliseconds: int) -> int:
    """Whole seconds of a row: rounded half up, at least one."""
    return max((milliseconds + 500) // 1000, 1)


def _milliseconds(seconds: float) -> int:
    """Above 0, however little is asked for."""
    exact = Decimal(str(seconds)) * 1000
    return max(int(exact.to_integral_value(ROUND_HALF_UP)), 1)
