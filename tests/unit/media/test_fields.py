"""Every field of every media request: what is refused, under which name, and what is taken.

Reference 7.4 to 7.8, row by row.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.errors import InvalidRequest
from gw.media.fields import model_of
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
    refusal,
    refused,
)

EMOJI = "\N{GRINNING FACE}"  # one code point, two UTF-16 units, four bytes
PRIVATE = "http://127.0.0.1/a"

# Kind, field, values that are refused; the error names the field, or the one given in the value.
REFUSED: list[tuple[str, str, list[Any]]] = [
    ("general", "model", [ABSENT, None, 5, "", "m" * 257]),
    ("general", "content", [ABSENT, None, [], "A cat", {}, [PORTRAIT], [{**TEXT, "text": " "}]]),
    ("general", "content[0]", [["A cat"], [5], [None], [[TEXT]]]),
    ("general", "content[0].type", [[{"text": "x"}], [{"type": 5}], [{**TEXT, "type": "file"}]]),
    ("general", "content[0].text", [[{"type": "text"}], [{"type": "text", "text": 5}]]),
    ("general", "content[1].image_url", [[TEXT, {"type": "image_url"}]]),
    ("general", "content[1].image_url", [[TEXT, {"type": "image_url", "image_url": IMAGE}]]),
    (
        "general",
        "content[1].image_url.url",
        [
            [TEXT, {"type": "image_url", "image_url": inner}]
            for inner in ({}, {"url": 5}, {"url": PRIVATE}, {"url": "asset://1"}, {"url": ""})
        ],
    ),
    ("general", "content[1].role", [[TEXT, {**PORTRAIT, "role": 5}]]),
    ("general", "duration", [0, -1, 3600.5, 3601, "5", True, [5], float("1e308")]),
    ("general", "resolution", [720, True, ["720p"], "p" * 65]),
    ("general", "ratio", [16, {}]),
    ("general", "video_mode", [1]),
    ("general", "watermark", ["true", 1]),
    ("general", "portrait_auth", ["yes", 0]),
    ("dh-avatar", "duration", [ABSENT, None, 0, "9", False]),
    ("dh-avatar", "avatar", [ABSENT, None, "", 5, "a" * 257]),
    ("dh-avatar", "audio_url", [ABSENT, PRIVATE, 5, "a.mp3"]),
    ("dh-avatar", "title", [5, "t" * 21, EMOJI * 21]),
    ("dh-lipsync", "duration", [ABSENT]),
    ("dh-lipsync", "source_video_url", [ABSENT, None, PRIVATE, 5]),
    ("dh-lipsync", "audio_url", [ABSENT, PRIVATE, "data:audio/mpeg;base64,AA"]),
    ("dh-motion", "duration", [ABSENT]),
    ("dh-motion", "source_video_url", [ABSENT, PRIVATE]),
    ("dh-motion", "content", [ABSENT, [], [PORTRAIT] * 8, "x"]),
    ("dh-motion", "content[0].type", [[TEXT]]),
    (
        "dh-motion",
        "content[0].image_url.url",
        [[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]],
    ),
    ("dh-motion", "face_count", [0, 8, 1.5, "1", True]),
    ("dh-motion", "resolution", ["720p", "Max", ""]),
    ("realman", "style_id", [ABSENT, None, "", 5]),
    ("realman", "source_video_url", [ABSENT, PRIVATE]),
    ("realman", "materials", [[], [MATERIAL] * 11, {}]),
    ("realman", "preprocess", ["roughcut", 5]),
    ("realman", "duration", [0, "60", 3601]),
    ("realman", "cover_url", [PRIVATE, 5]),
    ("realman", "language", [5, "l" * 65]),
    ("realman", "title", [5]),
    ("realman", "bgm", ["none", []]),
    ("realman", "bgm.mode", [{"mode": "loud"}]),
    ("realman", "bgm.url", [{"mode": "custom"}, {"mode": "custom", "url": PRIVATE}]),
    ("realman", "bgm.volume", [{"volume": 1.1}, {"volume": -1}, {"volume": "1"}, {"volume": True}]),
    ("realman", "introduce_card", ["me", []]),
    ("realman", "introduce_card.name", [{"name": 5}]),
    ("mixcut", "style_id", [ABSENT]),
    ("mixcut", "audio_url", [ABSENT, PRIVATE]),
    ("mixcut", "materials", [ABSENT, None, []]),
    ("mixcut", "materials[0]", [["x"]]),
    ("mixcut", "materials[0].type", [[{"file_url": IMAGE}], [{**MATERIAL, "type": "audio"}]]),
    ("mixcut", "materials[0].file_url", [[{"type": "image"}], [{**MATERIAL, "file_url": PRIVATE}]]),
    ("mixcut", "materials[0].sound_switch", [[{**MATERIAL, "sound_switch": 1}]]),
    ("news", "title", [ABSENT, None, "", "  ", 5]),
    ("news", "materials", [ABSENT]),
    ("news", "material_composition", ["shuffle"]),
    ("news", "duration", ["60", True, []]),
    ("music", "model", [ABSENT, 5]),
    ("music", "prompt", [ABSENT, None, "", " ", "p" * 201, EMOJI * 201, 5]),
    ("music", "lyrics", ["l" * 3001, 5]),
    ("music", "title", [5, "t" * 1001]),
    ("music", "tags", [["pop"]]),
    ("music", "negative_tags", [5]),
    ("music", "instrumental", ["true", 1]),
    ("speech", "model", [ABSENT]),
    ("speech", "input", [ABSENT, None, "", 5, "i" * 10_001, EMOJI * 10_001]),
    ("speech", "voice", [ABSENT, None, "", 5]),
    ("speech", "response_format", ["ogg", 5, "MP3"]),
    ("speech", "speed", [0, 0.24, 4.01, 5, "1", True]),
    ("speech", "stream_format", ["sse", 5]),
    ("speech", "async", ["true", 1]),
    ("avatar", "name", [ABSENT, None, "", "n" * 21, EMOJI * 21, 5]),
    ("avatar", "source_url", [ABSENT, PRIVATE, "data:image/png;base64,AA", 5]),
    ("avatar", "source_kind", ["audio", 5]),
    ("voice", "model", [ABSENT]),
    ("voice", "name", [ABSENT, "", "n" * 21]),
    ("voice", "audio_url", [ABSENT, PRIVATE]),
    ("voice", "text", [5, "t" * 10_001]),
    ("transcript", "url", [ABSENT, PRIVATE, "watch this", 5]),
    ("transcript", "model", [5, ""]),
    ("transcript", "language", [5]),
]
CASES = [(kind, field, value) for kind, field, values in REFUSED for value in values]


@each("kind, field, value", CASES)
def test_bad_field_is_named(kind: str, field: str, value: Any) -> None:
    top = field.partition("[")[0].partition(".")[0]
    error = refused(kind, **{top: value})
    assert error.param == field
    assert error.message.startswith(top)
    assert "request body" not in error.message
    assert error.message.endswith(".")
    assert not isinstance(value, str) or len(value) < 3 or value not in error.message


TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("general", {"duration": 3600, "resolution": "8k", "ratio": "", "watermark": None}),
    ("general", {"duration": 0.001}),
    ("general", {"content": [TEXT, *[PORTRAIT] * 10]}),
    ("general", {"content": [{**TEXT, "text": ""}, TEXT]}),
    ("dh-avatar", {"title": EMOJI * 20}),
    ("dh-avatar", {"audio_url": ABSENT, "voice": "v", "text": EMOJI * 10_000}),
    ("dh-motion", {"content": [PORTRAIT] * 7, "face_count": 1, "resolution": "fast"}),
    ("realman", {"materials": [MATERIAL] * 10, "preprocess": "sliceMerge", "duration": 3600}),
    ("realman", {"bgm": {"mode": "none", "volume": 0.5}, "introduce_card": {"name": "N"}}),
    ("realman", {"bgm": {"mode": "custom", "url": AUDIO, "volume": 1}}),
    ("mixcut", {"materials": [{"type": "video", "file_url": FILM, "sound_switch": True}]}),
    ("news", {"duration": -1e300, "material_composition": "order"}),
    ("music", {"prompt": EMOJI * 200}),
    ("music", {"prompt": None, "lyrics": EMOJI * 3000}),
    ("music", {"prompt": ABSENT, "instrumental": True}),
    ("speech", {"input": EMOJI * 10_000, "speed": 0.25, "response_format": "opus"}),
    ("speech", {"stream_format": "audio"}),
    ("speech", {"input": EMOJI * 50_000, "speed": 4, "async": True}),
    ("avatar", {"name": EMOJI * 20, "source_kind": "video"}),
    ("avatar", {"source_kind": None}),
    ("voice", {"text": "t" * 10_000}),
    ("transcript", {"model": "m", "language": "en"}),
]


@each("kind, changes", TAKEN)
def test_good_field_is_taken(kind: str, changes: dict[str, Any]) -> None:
    read(kind, **changes)


def test_speech_of_more_than_a_page_is_requested_as_a_task() -> None:
    assert "async" in refused("speech", input="i" * 10_001).message
    assert refused("speech", input="i" * 50_001, **{"async": True}).param == "input"


@cases(
    "changes, param",
    ({"voice": "v"}, "audio_url"),
    ({"text": "Hi"}, "audio_url"),
    ({"voice": "v", "text": "Hi"}, "audio_url"),
    ({"audio_url": ABSENT, "voice": "v"}, "text"),
    ({"audio_url": ABSENT, "text": "Hi"}, "voice"),
    ({"audio_url": ABSENT, "voice": "v", "text": ""}, "text"),
    ({"audio_url": ABSENT, "voice": "v", "text": "t" * 10_001}, "text"),
)
def test_avatar_says_a_recording_or_a_text(changes: dict[str, Any], param: str) -> None:
    assert refused("dh-avatar", **changes).param == param


BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"{}{}",
    b'{"model": "m", "model": "n"}',
    b'{"model": "\\ud800"}',
    b'{"model": "m", "x": "\\udfff"}',
    b'{"model": "\xff"}',
    b'{"model": NaN}',
    b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"Model": "m"}',
    b'{"model": "a\\u0000b"}',
]


@each("kind", READERS)
@each("body", BROKEN)
def test_broken_body_is_refused(kind: str, body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        READERS[kind][1](body)


@each("body", [b"{}", b'{"model": 5}', b'{"model": "a\\u0007"}', b'{"model": ""}'])
def test_model_that_is_none(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        model_of(body)
    assert caught.value.param == "model"


def test_model_is_read_first_whatever_else_there_is() -> None:
    assert model_of(b'{"content": 5, "model": "film", "duration": "x"}') == "film"


def test_lone_surrogate_in_any_text_is_refused() -> None:
    for kind in READERS:
        _, reader = READERS[kind]
        with pytest.raises(InvalidRequest):
            reader(b'{"model": "m", "name": "\\ud83d", "input": "\\ude00", "prompt": "\\ud83dx"}')


FIELDS = sorted({name for good, _ in READERS.values() for name in good} | {"bgm", "face_count"})
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from([FILM, PRIVATE, "text", "image_url", "\ud800", "x" * 300]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "url", "image_url", "mode"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(sorted(READERS)),
    changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)
def test_any_body_is_read_or_refused_by_name(kind: str, changes: dict[str, Any]) -> None:
    error = refusal(kind, **changes)
    assert error is None or error.message
    assert error is None or error.param is None or error.param.isprintable()
