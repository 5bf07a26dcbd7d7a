"""What the call log shows of a media request."""

from typing import Any

from gw.media.logged_parameters import parameters_of
from tests.support.rows import cases
from tests.unit.media.bodies import ABSENT, MATERIAL, PORTRAIT, READERS, TEXT, read


@cases(
    "kind, changes, parameters",
    (
        "general",
        {"duration": 5, "resolution": "720p", "watermark": False, "content": [TEXT, PORTRAIT]},
        {"resolution": "720p", "watermark": "false", "duration": "5", "texts": "1", "images": "1"},
    ),
    (
        "dh-avatar",
        {"audio_url": ABSENT, "voice": "v", "text": "Hello"},
        {"avatar": "ava_1", "voice": "v", "duration": "9", "text_characters": "5"},
    ),
    (
        "news",
        {"duration": 1, "materials": [MATERIAL] * 2, "material_composition": "order"},
        {"style_id": "s", "material_composition": "order", "duration": "5", "materials": "2"},
    ),
    (
        "music",
        {"lyrics": "La la", "instrumental": False},
        {"instrumental": "false", "lyrics_characters": "5"},
    ),
    (
        "speech",
        {"speed": 1.5, "async": True},
        {
            "voice": "v",
            "response_format": "mp3",
            "speed": "1.5",
            "async": "true",
            "input_characters": "5",
        },
    ),
    ("avatar", {}, {"source_kind": "image"}),
    ("transcript", {"language": "en"}, {"language": "en"}),
)
def test_parameters(kind: str, changes: dict[str, Any], parameters: dict[str, str]) -> None:
    assert parameters_of(read(kind, **changes)) == parameters


def test_no_link_and_no_text_is_shown() -> None:
    for kind in READERS:
        shown = " ".join(parameters_of(read(kind)).values())
        assert "example" not in shown
        assert "cat" not in shown


def test_long_setting_is_logged_by_its_length() -> None:
    assert parameters_of(read("realman", style_id="s" * 41))["style_id"] == "(41 characters)"
