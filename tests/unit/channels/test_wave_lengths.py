"""How long a WAVE file is by its head, which its sender has written."""

import io
import struct
import wave

from channels.dialects.transcriptions import _length_of_wave
from tests.support.rows import cases

SECONDS = 3


def file_of(rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(bytes(rate * channels * width * SECONDS))
    return file.getvalue()


@cases("rate, channels, width", (16_000, 1, 2), (44_100, 2, 3))
def test_length_is_that_of_what_is_in_it(rate: int, channels: int, width: int) -> None:
    made = file_of(rate, channels, width)
    assert _length_of_wave(made[:44], len(made)) == SECONDS * 1000


@cases(
    "form, at, value",
    ("<I", 28, 4_000_000_000),  # bytes a second: a long file would be short
    ("<I", 24, 192_001),  # samples a second
    ("<H", 20, 0x55),  # MPEG in a WAVE
    ("<H", 22, 9),  # channels
    ("<H", 22, 0),
    ("<H", 32, 400),  # bytes of a sample of all channels
    ("<H", 34, 7),  # bits
)
def test_head_that_contradicts_itself_states_no_length(form: str, at: int, value: int) -> None:
    made = bytearray(file_of())
    struct.pack_into(form, made, at, value)
    assert _length_of_wave(bytes(made[:44]), len(made)) is None
