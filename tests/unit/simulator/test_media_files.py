"""The files that the simulator makes, opened by readers that others wrote."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import av
import mutagen
import mutagen.aac
import pytest
from av.audio import AudioStream
from av.container import InputContainer
from hypothesis import given
from hypothesis import strategies as st

from loadtests.simulator.media.audio import FORMATS
from loadtests.simulator.media.film import film, padded
from loadtests.simulator.media.picture import HEIGHT, WIDTH, png
from loadtests.simulator.media.tone import RATE, pcm


def opened(file: bytes) -> InputContainer:
    found = av.open(io.BytesIO(file))
    assert isinstance(found, InputContainer)
    return found


def length_of(file: bytes, read: Callable[[io.BytesIO], Any] = mutagen.File) -> float:
    """What the second reader says, in seconds."""
    length: float = read(io.BytesIO(file)).info.length
    return length


@given(
    millis=st.integers(1, 3_600_000),
    ratio=st.sampled_from([(16, 9), (9, 16), (1, 1), (21, 9), (1, 900), (1080, 1920)]),
    seed=st.integers(0, 9999),
)
def test_a_film_is_as_long_as_asked_and_each_picture_decodes(
    millis: int, ratio: tuple[int, int], seed: int
) -> None:
    file = film(millis / 1000, ratio=ratio, seed=seed)
    with opened(file) as container:
        (stream,) = container.streams
        assert (container.duration, stream.codec_context.name) == (millis * 1000, "h264")
        frames = list(container.decode(video=0))
        assert len(frames) == stream.frames >= 1
        wide, high = ratio
        first = frames[0]
        assert (first.width > first.height) == (wide > high or first.width > 48)
        assert {bytes(frame.planes[0])[0] for frame in frames} <= {90, 200}
    assert length_of(file) == pytest.approx(millis / 1000, abs=0.001)


def test_what_a_player_must_know_stands_before_the_pictures_and_a_bar_moves_through_them() -> None:
    file = film(4.0, seed=3)
    assert file.index(b"moov") < file.index(b"mdat")
    with opened(file) as container:
        places = [
            bytes(frame.planes[0])[: frame.width].index(200) for frame in container.decode(video=0)
        ]
    assert places == sorted(places)
    assert len(set(places)) == 5


def test_a_padded_film_is_of_that_size_and_still_one() -> None:
    head, zeros = padded(film(1.0), 500_000)
    assert len(head) + zeros == 500_000
    with opened(head + bytes(zeros)) as container:
        assert len(list(container.decode(video=0))) == 4
    assert padded(head, 10) == (head, 0)


@pytest.mark.parametrize("extension", [name for name in FORMATS if name != "pcm"])
@pytest.mark.parametrize("seconds", [0.3, 2.5, 61.7])
def test_sound_decodes_in_every_format_and_is_as_long_as_asked(
    extension: str, seconds: float
) -> None:
    content_type, make = FORMATS[extension]
    file = make(seconds, 1)
    assert content_type.startswith("audio/")
    with opened(file) as container:
        (stream,) = container.streams
        assert isinstance(stream, AudioStream)
        samples = sum(frame.samples for frame in container.decode(audio=0))
        assert samples / stream.rate == pytest.approx(seconds, abs=0.06)
    read = mutagen.aac.AAC if extension == "aac" else mutagen.File
    assert length_of(file, read) == pytest.approx(seconds, abs=0.06)


@pytest.mark.parametrize("extension", ["mp3", "wav"])
def test_a_tone_can_be_heard_and_its_pitch_follows_from_the_seed(extension: str) -> None:
    make = FORMATS[extension][1]

    def crossings(seed: int) -> int:
        with opened(make(1.0, seed)) as container:
            plain = av.AudioResampler(format="s16", layout="mono", rate=8000)
            heard = b"".join(
                bytes(piece.planes[0])[: 2 * piece.samples]
                for frame in container.decode(audio=0)
                for piece in plain.resample(frame)
            )
        values = memoryview(heard).cast("h")
        assert max(values) > 500
        return sum(before < 0 <= after for before, after in itertools.pairwise(values))

    assert crossings(0) < crossings(1) < crossings(2) < crossings(3)


def test_plain_samples_are_sixteen_bits_each() -> None:
    assert len(pcm(1.5)) == 2 * RATE * 3 // 2


def test_a_picture_decodes_and_is_as_large_as_told() -> None:
    for size in (0, 10_000):
        file = png(5, size)
        assert size <= len(file) < size + 5_000
        with opened(file) as container:
            (frame,) = container.decode(video=0)
        assert (frame.width, frame.height) == (WIDTH, HEIGHT)
