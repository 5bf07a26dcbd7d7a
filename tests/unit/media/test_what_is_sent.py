"""What of a checked request goes upstream, what is withheld, and what the log shows of it."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from channels.media.plain import bodies
from channels.media.requests import (
    AvatarRequest,
    BackgroundMusic,
    ClipVideo,
    GeneralVideo,
    MusicRequest,
    SpeechRequest,
    TranscriptRequest,
    Video,
)
from channels.registry import VideoSpec
from gw.media.film_length import held_milliseconds, unit_count, unreported_milliseconds
from gw.media.video_content import ITEMS_MAX
from gw.media.videos import read_video
from tests.support.rows import cases, each
from tests.unit.media.bodies import (
    ABSENT,
    AUDIO,
    FILM,
    IMAGE,
    MATERIAL,
    PORTRAIT,
    READERS,
    TEXT,
    read,
    video,
    video_refused,
    written,
)

DATA = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOURCE = {"type": "video_url", "video_url": {"url": FILM}}
SOUND = {"type": "audio_url", "audio_url": {"url": AUDIO}}
SOME = VideoSpec()
THIRD = VideoSpec(third_party=True)
MULTI = VideoSpec(multimodal=True)
REAL = VideoSpec(real_person=True)


def sent(request: Video) -> dict[str, Any]:
    """The fields a plain upstream gets."""
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(bodies.video_body(request)))
    return body


def test_unknown_fields_go_upstream_unchanged_and_ours_never() -> None:
    request = video(
        SOME,
        seed=7,
        camera={"fixed": [1, {"a": None}]},
        callback_url="https://a.example/hook",
        portrait_auth=True,
        avatar="of another kind",
        materials=[],
        watermark=False,
    )
    assert isinstance(request, GeneralVideo)
    assert request.portrait_auth is True
    assert sent(request) == {
        "model": "film",
        "content": [TEXT],
        "seed": 7,
        "camera": {"fixed": [1, {"a": None}]},
        "watermark": False,
    }


def test_items_are_sent_as_they_came() -> None:
    spaced = Raw(b'{"type": "text",  "text": "\\u00e9", "cache": {"a": 1.50}}')
    body = b'{"model": "film", "content": [' + bytes(spaced) + b"]}"
    request = READERS["general"][1](body)
    assert bytes(request.content[0].object) == bytes(spaced)
    assert request.texts() == ["é"]


def test_item_that_says_its_link_twice_is_refused() -> None:
    """An upstream may read the one that was not looked at."""
    twice = [
        f'{{"type": "image_url", "image_url": {{"url": "{IMAGE}"}}, "image_url": {{"url": "x"}}}}',
        f'{{"type": "image_url", "image_url": {{"url": "http://10.0.0.1", "url": "{IMAGE}"}}}}',
    ]
    for item in twice:
        body = f'{{"model": "film", "content": [{{"type": "text", "text": "x"}}, {item}]}}'
        with pytest.raises(Exception, match="more than once"):
            READERS["general"][1](body.encode())


def test_items_are_bounded() -> None:
    video(SOME, content=[TEXT] * ITEMS_MAX)
    assert video_refused(SOME, content=[TEXT] * (ITEMS_MAX + 1)).param == "content"
    assert video_refused(MULTI, content=[TEXT] + [PORTRAIT] * 11).param == "content"


@cases(
    "spec, item, is_taken",
    (SOME, DATA, True),
    (THIRD, DATA, True),
    (REAL, DATA, False),
    (SOME, {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,A"}}, False),
    (SOME, SOURCE, False),
    (THIRD, SOURCE, True),
    (MULTI, SOURCE, True),
    (SOME, SOUND, False),
    (THIRD, SOUND, False),
    (MULTI, SOUND, True),
    (SOME, {**PORTRAIT, "role": "first_frame"}, True),
    (SOME, {**PORTRAIT, "role": "reference_image"}, False),
    (THIRD, {**SOURCE, "role": "reference_video"}, False),
    (MULTI, {**PORTRAIT, "role": "reference_image"}, True),
    (MULTI, {**SOURCE, "role": "reference_video"}, True),
    (MULTI, {**SOUND, "role": "reference_audio"}, True),
    (MULTI, {**SOUND, "audio_url": {"url": "http://localhost/a"}}, False),
)
def test_items_a_model_takes(spec: VideoSpec, item: Any, is_taken: bool) -> None:
    if is_taken:
        assert sent(video(spec, content=[TEXT, item]))["content"] == [TEXT, item]
    else:
        param = video_refused(spec, content=[TEXT, item]).param
        assert param is not None
        assert param.startswith("content[1].")


@cases(
    "tier, taken, refused",
    (None, ["480p", "8k", None], []),
    ("lite", ["720p", "1080p"], ["480p", "2k", "", None]),
    ("mini", ["480p", "720p", None], ["1080p", "720P"]),
    ("fast", ["480p", "720p", "1080p", None], ["2k"]),
    ("full", ["480p", "720p", "1080p", "2k", "4k", None], ["8k"]),
)
def test_resolutions_of_a_tier(tier: Any, taken: list[Any], refused: list[Any]) -> None:
    spec = VideoSpec(tier=tier)
    for resolution in taken:
        assert video(spec, resolution=resolution).resolution == resolution
    for resolution in refused:
        assert video_refused(spec, resolution=resolution).param == "resolution"


@cases(
    "tier, mode, taken, refused",
    ("mini", None, [4, 15, 4.5], [3.99, 15.5, 3600]),
    (None, "extend", [2, 10], [1.9, 10.1]),
    ("mini", "extend", [4, 10], [3, 11]),
    ("full", "rewrite", [1, 3600], []),
)
def test_durations(tier: Any, mode: Any, taken: list[Any], refused: list[Any]) -> None:
    spec = VideoSpec(tier=tier, third_party=True)
    for duration in taken:
        assert video(spec, duration=duration, video_mode=mode).duration == duration
    for duration in refused:
        assert video_refused(spec, duration=duration, video_mode=mode).param == "duration"


SHAPE = {"ratio": "16:9", "resolution": "720p", "duration": 8}


@cases(
    "spec, items, mode, withheld",
    (SOME, [PORTRAIT], None, set()),
    (MULTI, [SOURCE], None, set()),
    (THIRD, [], None, set()),
    (THIRD, [PORTRAIT], None, {"ratio"}),
    (THIRD, [SOURCE], None, {"ratio", "resolution", "duration"}),
    (THIRD, [SOURCE, PORTRAIT], "rewrite", {"ratio", "resolution", "duration"}),
    (THIRD, [SOURCE], "extend", {"ratio", "resolution"}),
)
def test_what_the_source_decides_is_withheld(
    spec: VideoSpec, items: list[Any], mode: Any, withheld: set[str]
) -> None:
    request = video(spec, content=[TEXT, *items], video_mode=mode, **SHAPE)
    assert SHAPE.keys() - sent(request).keys() == withheld
    assert request.asked_duration == 8


def test_images_of_real_people_are_registered() -> None:
    request = video(REAL, content=[TEXT, PORTRAIT], portrait_auth=True)
    assert (request.registers_images, request.portrait_auth) == (True, True)
    assert not video(SOME).registers_images


def test_face_count_is_the_number_of_portraits_unless_stated() -> None:
    assert read("dh-motion", content=[PORTRAIT] * 3).face_count == 3
    assert read("dh-motion", content=[PORTRAIT] * 3, face_count=7).face_count == 7


def test_avatar_keeps_what_its_kind_has() -> None:
    request = read(
        "dh-avatar",
        style_id="s",
        content=[TEXT],
        seed=7,
        callback_url="https://a.example/hook",
        portrait_auth=True,
    )
    assert sent(request) == {
        "model": "dh-avatar",
        "duration": 9,
        "avatar": "ava_1",
        "audio_url": AUDIO,
    }
    assert request.portrait_auth is True


@cases(
    "kind, fields",
    ("realman", {"source_video_url": FILM, "preprocess": "roughCut"}),
    ("mixcut", {"audio_url": AUDIO, "materials": [MATERIAL]}),
    (
        "news",
        {"title": "T", "materials": [MATERIAL], "material_composition": "order", "duration": 60},
    ),
)
def test_clip_sends_the_fields_of_its_scene_alone(kind: str, fields: dict[str, Any]) -> None:
    everything = {
        "source_video_url": FILM,
        "audio_url": AUDIO,
        "preprocess": "roughCut",
        "material_composition": "order",
        "duration": 60,
        "avatar": "a",
        "seed": 7,
    }
    request = read(kind, **everything)
    assert isinstance(request, ClipVideo)
    body = sent(request)
    assert body.pop("model") == f"clip-{kind}"
    assert body.pop("style_id") == "s"
    assert body == fields
    assert request.asked_duration == 60


def test_field_of_another_scene_is_not_looked_at() -> None:
    read("realman", audio_url="http://127.0.0.1", material_composition="odd")
    read("news", source_video_url=5, preprocess=5, audio_url=None)


@cases(
    "duration, clamped",
    (ABSENT, None),
    (None, None),
    (4, 5),
    (-7, 5),
    (5, 5),
    (77.5, 77.5),
    (301, 300),
    (1e300, 300),
)
def test_duration_of_news_is_clamped(duration: Any, clamped: Any) -> None:
    request = read("news", duration=duration)
    assert (request.duration, request.asked_duration) == (clamped, clamped)


def test_music_of_a_clip() -> None:
    assert read("realman").bgm is None
    link = {"mode": "auto", "url": "http://127.0.0.1"}
    assert read("realman", bgm=link).bgm == BackgroundMusic(mode="auto")
    own = {"mode": "custom", "url": AUDIO, "volume": 0}
    assert read("realman", bgm=own).bgm == BackgroundMusic(mode="custom", url=AUDIO, volume=0)
    card = {"name": "N", "description": "D", "age": 7}
    assert read("realman", introduce_card=card).introduce_card == {"name": "N", "description": "D"}


@cases(
    "model_id, kind, made",
    ("film", "general", "GeneralVideo"),
    ("dhx", "general", "GeneralVideo"),
    ("dh-avatar", "dh-avatar", "AvatarVideo"),
    ("dh-lipsync", "dh-lipsync", "LipSyncVideo"),
    ("dh-lipsync-max", "dh-lipsync", "LipSyncVideo"),
    ("dh-motion", "dh-motion", "MotionVideo"),
    ("clip-realman", "realman", "ClipVideo"),
    ("clip-mixcut", "mixcut", "ClipVideo"),
    ("clip-news", "news", "ClipVideo"),
)
def test_kind_of_a_video_follows_from_its_models_id(model_id: str, kind: str, made: str) -> None:
    assert type(read_video(written(kind), model_id, VideoSpec())).__name__ == made


def test_kind_that_nobody_knows() -> None:
    assert read_video(written("general"), "dh-dance", VideoSpec()) is None
    assert read_video(written("general"), "clip-other", VideoSpec()) is None


@cases(
    "changes, prompt, lyrics",
    ({}, "A song", None),
    ({"lyrics": "La"}, None, "La"),
    ({"lyrics": ""}, "A song", None),
    ({"lyrics": "La", "instrumental": True}, "A song", None),
    ({"lyrics": "La", "instrumental": True, "prompt": ""}, None, None),
    ({"lyrics": "La", "instrumental": False}, None, "La"),
)
def test_what_a_song_is_made_of(changes: Any, prompt: Any, lyrics: Any) -> None:
    request = read("music", **changes)
    assert isinstance(request, MusicRequest)
    assert (request.prompt, request.lyrics) == (prompt, lyrics)


def test_defaults() -> None:
    assert read("speech", response_format=None, speed=None) == SpeechRequest(
        model="tts", input="Hello", voice="v", response_format="mp3"
    )
    assert read("avatar") == AvatarRequest(name="Ann", source_url=IMAGE, source_kind="image")
    assert read("transcript") == TranscriptRequest(model="script", url=FILM)
    assert read("transcript", model="mine").model == "mine"


def test_input_of_speech_is_kept_as_it_is() -> None:
    for text in ("  a\u0301\n", "x" * 9000 + " ", "語" * 10_000):
        assert read("speech", input=text).input == text


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
