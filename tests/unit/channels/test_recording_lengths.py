"""How long a recording is by its container, as the programs write it that make recordings."""

import random
import struct

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.recording_length import STEPS_MAX, recording_length
from tests.support.rows import cases
from tests.support.steps import steps_of

TAG = b"ID3\4\0\0\0\0\2\0" + bytes(256)


def wave(rate: int, data: bytes, stated: int | None = None) -> bytes:
    """A-law, with a chunk of texts before the sound, as converters write it."""
    head = b"fmt " + struct.pack("<IHHIIHHH", 18, 6, 1, rate, rate, 1, 8, 0)
    texts = b"LIST" + struct.pack("<I", 5) + b"INFO\0" + b"\0"
    size = len(data) if stated is None else stated
    chunks = head + texts + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def frame(head: int, size: int) -> bytes:
    return struct.pack(">I", head) + bytes(size - 4)


# MPEG 1 layer III, 44.1 kHz in stereo; of 128 kbit/s and of 32.
FRAME, SMALL = frame(0xFFFB9000, 417), frame(0xFFFB1000, 104)
# MPEG 2.5 layer III, 8 kHz, mono, 8 kbit/s: of a telephone.
SLOW = frame(0xFFE318C4, 72)


def counted(frames: int) -> bytes:
    """A head that counts the frames of a variable rate."""
    head = bytearray(FRAME)
    head[36:48] = b"Xing" + struct.pack(">II", 1, frames)
    return bytes(head)


def flac(rate: int, samples: int) -> bytes:
    packed = (rate << 44 | 1 << 41 | 15 << 36 | samples).to_bytes(8)
    return b"fLaC\0\0\0\x22" + bytes(10) + packed + bytes(16) + b"\xff\xf8" + bytes(900)


def page(packet: bytes, position: int, serial: bytes = b"abcd") -> bytes:
    lacing = bytes([255] * (len(packet) // 255) + [len(packet) % 255])
    head = b"OggS\0\0" + struct.pack("<q", position) + serial + bytes(8)
    return head + bytes([len(lacing)]) + lacing + packet


OPUS = page(b"OpusHead\1\1" + struct.pack("<HI", 312, 16_000) + b"\0\0\0", 0)
VORBIS = page(b"\1vorbis" + struct.pack("<IBI", 0, 1, 22_050) + bytes(14), 0)
SPEEX = page(b"Speex   " + bytes(28) + struct.pack("<I", 8_000) + bytes(40), 0)
SOUND = bytes(700)


def box(name: bytes, *inside: bytes) -> bytes:
    content = b"".join(inside)
    return struct.pack(">I", 8 + len(content)) + name + content


def movie(length: int, *more: bytes) -> bytes:
    header = box(b"mvhd", bytes(12), struct.pack(">II", 1_000, length), bytes(80))
    return box(b"moov", header, *more)


M4A = box(b"ftyp", b"M4A ", bytes(4))
TRACK = box(b"trak", box(b"mdia", box(b"mdhd", bytes(12), struct.pack(">II", 48_000, 0), bytes(4))))


def fragment(since: int) -> bytes:
    begun = box(b"tfdt", b"\1\0\0\0", struct.pack(">Q", since))
    return box(b"moof", box(b"traf", begun)) + box(b"mdat", SOUND)


def element(name: int, content: bytes, *, is_open: bool = False) -> bytes:
    size = b"\x01" + b"\xff" * 7 if is_open else (1 << 56 | len(content)).to_bytes(8)
    return name.to_bytes((name.bit_length() + 7) // 8) + size + content


EBML = element(0x1A45DFA3, element(0x4282, b"webm"))
SCALE = element(0x2AD7B1, (1_000_000).to_bytes(3))


def cluster(since: int, *blocks: int) -> bytes:
    inside = element(0xE7, since.to_bytes(4))
    inside += b"".join(
        element(0xA3, b"\x81" + struct.pack(">h", at) + b"\x80" + SOUND) for at in blocks
    )
    return element(0x1F43B675, inside, is_open=True)


def webm(*parts: bytes) -> bytes:
    return EBML + element(0x18538067, b"".join(parts), is_open=True)


@cases(
    "file, milliseconds",
    (wave(8_000, bytes(20_000)), 2_500),
    (wave(8_000, bytes(20_000), 0xFFFFFFFF), 2_500),  # written into a pipe
    (TAG + FRAME * 100 + b"TAG" + bytes(125), 2_613),
    (FRAME + SMALL * 3_999, 104_412),  # of 104,490: by the mean of the first half
    (SLOW * 100, 7_200),
    (TAG + counted(3_000) + SMALL * 3_000, 78_368),
    (flac(44_100, 441_000), 10_000),
    (TAG + flac(96_000, 96_001), 1_001),
    (OPUS + page(SOUND, 48_312) + page(SOUND, 96_312), 2_000),
    # Another stream behind the sound, and a page on which nothing ends.
    (OPUS + page(SOUND, 96_312) + page(SOUND, -1) + page(SOUND, 9**9, b"wxyz"), 2_000),
    (VORBIS + page(SOUND, 22_050 * 3), 3_000),
    (SPEEX + page(SOUND, 8_000 * 4), 4_000),
    (M4A + movie(61_500) + box(b"mdat", SOUND), 61_500),
    (M4A + box(b"mdat", SOUND * 9) + movie(61_500), 61_500),
    (M4A + movie(0, box(b"mvex", box(b"mehd", bytes(4), b"\0\0\x27\x10"))), 10_000),
    (M4A + movie(0, TRACK) + b"".join(fragment(n * 96_000) for n in range(5)), 10_000),
    (webm(element(0x1549A966, SCALE + element(0x4489, struct.pack(">f", 7_250.0)))), 7_250),
    # Recorded live in a browser: no length anywhere.
    (webm(element(0x1549A966, SCALE), cluster(0, 0, 20), cluster(9_000, 0, 20, 40)), 9_040),
)
def test_length_is_that_of_what_is_in_it(file: bytes, milliseconds: int) -> None:
    assert recording_length(b"--" + file + b"\r\n--", 2, 2 + len(file)) == milliseconds


@cases(
    "file",
    b"",
    TAG,
    b"text, and no sound",
    bytes(4_000),
    random.Random(1).randbytes(60_000),
    wave(0, bytes(100)),
    flac(44_100, 0),
    flac(0, 441_000),
    OPUS,
    page(b"\x80theora" + bytes(40), 0) + page(SOUND, 99),
    M4A + movie(0),
    M4A + movie(0, TRACK) + fragment(0),
    webm(element(0x1549A966, SCALE)),
    webm(element(0x1549A966, element(0x4489, struct.pack(">d", float("nan"))))),
    webm(element(0x1549A966, element(0x4489, struct.pack(">d", 1e300)))),
)
def test_file_that_states_no_length_has_none(file: bytes) -> None:
    assert recording_length(file, 0, len(file)) is None


MADE = (
    TAG + FRAME * 3,
    flac(44_100, 441_000),
    OPUS + page(SOUND, 96_312),
    M4A + movie(61_500),
    webm(element(0x1549A966, SCALE), cluster(9_000, 0, 20)),
    wave(8_000, bytes(99)),
)


@given(st.sampled_from(MADE), st.data())
def test_damaged_file_states_a_length_or_none(file: bytes, data: st.DataObject) -> None:
    damaged = bytearray(file)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(file)))
    found = recording_length(bytes(damaged), 0, end)
    assert found is None or found > 0


@cases(
    "many",
    TAG * 40_000,
    b"\xff" * 9_000_000,
    SLOW * 130_000,
    OPUS + b"OggS" * 2_000_000,
    M4A + box(b"free") * 1_000_000,
    webm(element(0xEC, b"") * 1_000_000),
    wave(8_000, b"")[:12] + (b"LIST" + bytes(4)) * 1_000_000,
)
def test_long_file_costs_no_more_than_its_bound(many: bytes) -> None:
    assert steps_of(lambda: recording_length(many, 0, len(many))) < 40 * STEPS_MAX
