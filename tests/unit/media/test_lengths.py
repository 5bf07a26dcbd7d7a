"""How many milliseconds are held and paid for (contract for media §3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.registry import VideoSpec
from gw.media.videos import (
    held_milliseconds,
    priced_resolution,
    unit_count,
    unreported_milliseconds,
)
from tests.support.rows import cases, each
from tests.unit.media.asking import ABSENT, FILM, TEXT, read, video

SOURCE = {"type": "video_url", "video_url": {"url": FILM}}

# Kind, `duration` as the client sends it, what is held, what is paid for without a report.
LENGTHS: list[tuple[str, Any, int, int]] = [
    ("general", ABSENT, 12_000, 12_000),
    ("general", 5, 5_000, 5_000),
    ("general", 7.25, 7_250, 7_250),
    ("general", 0.00001, 1, 1),
    ("general", 3600, 3_600_000, 3_600_000),
    ("dh-avatar", 30, 30_000, 30_000),
    ("dh-lipsync", 0.5, 500, 500),
    ("dh-motion", 9, 9_000, 9_000),
    ("realman", ABSENT, 300_000, 300_000),
    ("realman", 60, 300_000, 60_000),
    ("realman", 301, 301_000, 301_000),
    ("mixcut", 3600, 3_600_000, 3_600_000),
    ("news", ABSENT, 300_000, 300_000),
    ("news", 60, 300_000, 60_000),
    ("news", 1, 300_000, 5_000),
    ("news", 900, 300_000, 300_000),
]


@each("kind, duration, held, unreported", LENGTHS)
def test_lengths(kind: str, duration: Any, held: int, unreported: int) -> None:
    request = read(kind, duration=duration)
    assert (held_milliseconds(request), unreported_milliseconds(request)) == (held, unreported)


def test_duration_that_is_withheld_is_held_all_the_same() -> None:
    request = video(VideoSpec(third_party=True), content=[TEXT, SOURCE], duration=20)
    assert request.duration is None
    assert (held_milliseconds(request), unreported_milliseconds(request)) == (20_000, 20_000)


@cases(
    "kind, resolution, priced",
    ("general", None, None),
    ("general", "1080p", "1080p"),
    ("dh-avatar", None, None),
    ("dh-motion", None, "standard"),
    ("dh-motion", "max", "max"),
)
def test_resolution_that_may_have_a_price(kind: str, resolution: Any, priced: str | None) -> None:
    assert priced_resolution(read(kind, resolution=resolution)) == priced


@cases(
    "milliseconds, count",
    (1, 1),
    (499, 1),
    (500, 1),
    (1499, 1),
    (1500, 2),
    (12_000, 12),
    (12_500, 13),
)
def test_unit_count_is_seconds_rounded_half_up(milliseconds: int, count: int) -> None:
    assert unit_count(milliseconds) == count


@given(st.integers(1, 3_600_000))
def test_every_millisecond_is_kept_exactly(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert held_milliseconds(read("general", duration=seconds)) == milliseconds


@given(
    kind=st.sampled_from(["general", "realman", "mixcut"]),
    duration=st.floats(0.001, 3600) | st.integers(1, 3600),
)
def test_what_is_held_covers_what_is_paid_without_a_report(kind: str, duration: float) -> None:
    request = read(kind, duration=duration)
    held, unreported = held_milliseconds(request), unreported_milliseconds(request)
    assert 0 < unreported <= held
    assert abs(Decimal(unreported) / 1000 - Decimal(str(duration))) <= Decimal("0.0005")
