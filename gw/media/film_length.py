"""The milliseconds of film that are held and billed (reference 5.5).

`actors/wallet/piece_prices.py` prices them.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from channels.media.requests import ClipVideo, MotionVideo, Video

GENERAL_SECONDS = 12
CLIP_SECONDS = 300
# The resolution that prices `dh-motion` if the request has none.
MOTION_RESOLUTION = "standard"


def held_milliseconds(request: Video) -> int:
    """Return the milliseconds held before the request is sent upstream."""
    asked = request.asked_duration
    if isinstance(request, ClipVideo):
        seconds = CLIP_SECONDS if request.scene == "news" else max(CLIP_SECONDS, asked or 0)
    else:
        seconds = GENERAL_SECONDS if asked is None else asked
    return _milliseconds(seconds)


def unreported_milliseconds(request: Video) -> int:
    """Return the milliseconds billed if the upstream does not report the length."""
    if request.asked_duration is None:
        return held_milliseconds(request)
    return _milliseconds(request.asked_duration)


def priced_resolution(request: Video) -> str | None:
    """Return the resolution that may have a price of its own."""
    if isinstance(request, MotionVideo) and request.resolution is None:
        return MOTION_RESOLUTION
    return request.resolution


def unit_count(milliseconds: int) -> int:
    """Return the whole seconds of a row: rounded half up, at least one."""
    return max((milliseconds + 500) // 1000, 1)


def _milliseconds(seconds: float) -> int:
    """Return milliseconds, always above 0."""
    exact = Decimal(str(seconds)) * 1000
    return max(int(exact.to_integral_value(ROUND_HALF_UP)), 1)
