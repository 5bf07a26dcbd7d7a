"""Sound in every format that speech is asked for, made from nothing.

WAV and PCM are a tone; mp3 is one (MPEG-1 layer III, mono, 44.1 kHz, 32 kbit a second: every frame
holds the same single spectral line in both of its granules); FLAC, Ogg Opus and AAC (ADTS) are
silence, which takes no encoder: the same few bytes in every frame.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from loadtests.simulator.film import packed, u

RATE: Final = 16_000  # samples a second
PITCHES: Final = (200, 250, 320, 400)  # Hz, of which a whole period is a whole number of samples
LOUDNESS: Final = 6_000  # of 32,767


def period(seed: int) -> bytes:
    """16-bit little-endian samples."""
    samples = RATE // PITCHES[seed % len(PITCHES)]
    wave = [round(LOUDNESS * math.sin(2 * math.pi * at / samples)) for at in range(samples)]
    return struct.pack(f"<{samples}h", *wave)


def pcm(seconds: float, seed: int = 0) -> bytes:
    """A tone as plain samples: 16 bits, little-endian, mono, `RATE` a second."""
    size = 2 * max(1, round(seconds * RATE))
    one = period(seed)
    return (one * (size // len(one) + 1))[:size]


MP3_RATE: Final = 44_100
FRAME_SAMPLES: Final = 1152
FRAME_BYTES: Final = 104  # 144 × 32,000 / 44,100, rounded down …
PERIOD: Final = 49  # … so of as many frames 24 have a byte more
PADDED: Final = 24
LINES: Final = (11, 13, 16, 20)  # of 576, each 38.3 Hz wide
GAIN: Final = 196  # 210 is full loudness, each four less halve it


def mp3(seconds: float, seed: int = 0) -> bytes:
    """A file at least this long, at most one frame (26 ms) longer."""
    frames = -(-max(1, round(seconds * MP3_RATE)) // FRAME_SAMPLES)
    line = LINES[seed % len(LINES)]
    plain, padded = _frame(line, is_padded=False), _frame(line, is_padded=True)
    period = b"".join(
        padded if at * PADDED // PERIOD != (at + 1) * PADDED // PERIOD else plain
        for at in range(PERIOD)
    )
    whole, rest = divmod(frames, PERIOD)
    return period * whole + period[: rest * FRAME_BYTES + rest * PADDED // PERIOD]


def _frame(line: int, *, is_padded: bool) -> bytes:
    # MPEG-1, layer III, no checksum; 32 kbit/s, 44.1 kHz; mono.
    head = u(0x7FF, 11) + "11011" + "000100" + u(is_padded, 1) + "0" + "11000000"
    # Pairs of Huffman table 1: nothing up to the line, then it, positive.
    coefficients = "1" * (line // 2) + ("0010" if line % 2 else "010")
    # Length, big values, loudness; no scalefactors, one long block, table 1 in each region.
    granule = u(len(coefficients), 12) + u(line // 2 + 1, 9) + u(GAIN, 8) + u(0, 5)
    granule += 3 * u(1, 5) + u(0, 7) + u(0, 3)
    side = u(0, 9) + u(0, 9) + 2 * granule  # nothing is borrowed from frames before
    main = packed(2 * coefficients)
    return (packed(head) + packed(side) + main).ljust(FRAME_BYTES + is_padded, b"\0")


Maker = Callable[[float, int], bytes]

OPUS_RATE: Final = 48_000
OPUS_PACKET: Final = b"\xf8\xff\xfe"  # 20 ms of silence
OPUS_PACKET_SAMPLES: Final = 960
PACKETS_PER_PAGE: Final = 50
AAC_SAMPLES: Final = 1024
AAC_SILENCE: Final = bytes.fromhex("00c800802380")  # one frame, mono, low complexity
AAC_RATE: Final = 44_100
FLAC_BLOCK: Final = 4096  # samples


def wav(seconds: float, seed: int = 0) -> bytes:
    """RIFF with 16-bit samples."""
    data = pcm(seconds, seed)
    shape = struct.pack("<HHIIHH", 1, 1, RATE, RATE * 2, 2, 16)
    return (
        b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + shape
        + b"data" + struct.pack("<I", len(data)) + data
    )  # fmt: skip


def flac(seconds: float, seed: int = 0) -> bytes:
    """Silence: each frame states that all its samples are zero."""
    samples = max(1, round(seconds * RATE))
    sizes = 2 * u(FLAC_BLOCK, 16) + 2 * u(0, 24)
    info = packed(sizes, u(RATE, 20), u(0, 3), u(15, 5), u(samples, 36), u(0, 128))
    whole, rest = divmod(samples, FLAC_BLOCK)
    frames = [_flac_frame(number, FLAC_BLOCK) for number in range(whole)]
    if rest:
        frames.append(_flac_frame(whole, rest))
    return b"fLaC\x80" + (34).to_bytes(3, "big") + info + b"".join(frames)


def opus(seconds: float, seed: int = 0) -> bytes:
    """Ogg pages: the two heads, then packets of 20 ms."""
    packets = -(-max(1, round(seconds * OPUS_RATE)) // OPUS_PACKET_SAMPLES)
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, OPUS_RATE, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 9) + b"simulator" + struct.pack("<I", 0)
    pages = [_page(0, 2, 0, [head]), _page(1, 0, 0, [tags])]
    for start in range(0, packets, PACKETS_PER_PAGE):
        end = min(packets, start + PACKETS_PER_PAGE)
        kind = 4 if end == packets else 0
        page = [OPUS_PACKET] * (end - start)
        pages.append(_page(len(pages), kind, end * OPUS_PACKET_SAMPLES, page))
    return b"".join(pages)


def aac(seconds: float, seed: int = 0) -> bytes:
    """ADTS frames."""
    # MPEG-4, no checksum; low complexity, 44.1 kHz, mono.
    head = "1111111111110001" + "01010000010000" + u(7 + len(AAC_SILENCE), 13) + "1111111111100"
    frames = -(-max(1, round(seconds * AAC_RATE)) // AAC_SAMPLES)
    return (packed(head) + AAC_SILENCE) * frames


# Format, as requests name it -> content type and maker.
FORMATS: Final[dict[str, tuple[str, Maker]]] = {
    "mp3": ("audio/mpeg", mp3),
    "wav": ("audio/wav", wav),
    "opus": ("audio/ogg", opus),
    "aac": ("audio/aac", aac),
    "flac": ("audio/flac", flac),
    "pcm": ("audio/pcm", pcm),
}


def _flac_frame(number: int, samples: int) -> bytes:
    head = bytes([0xFF, 0xF8, 0x75, 0x08]) + chr(number).encode() + struct.pack(">H", samples - 1)
    body = head + bytes([_crc(head, 8, 0x07)]) + b"\0\0\0"  # a constant subframe: zero
    return body + struct.pack(">H", _crc(body, 16, 0x8005))


def _page(number: int, kind: int, position: int, packets: list[bytes]) -> bytes:
    """One Ogg page (RFC 3533) of packets shorter than 255 bytes."""
    head = struct.pack("<4sBBqIII", b"OggS", 0, kind, position, 1, number, 0)
    page = head + bytes([len(packets), *map(len, packets)]) + b"".join(packets)
    return page[:22] + struct.pack("<I", _crc(page, 32, 0x04C11DB7)) + page[26:]


def _crc(data: bytes, width: int, polynomial: int) -> int:
    table, mask = _crc_table(width, polynomial), (1 << width) - 1
    crc = 0
    for byte in data:
        crc = (crc << 8 & mask) ^ table[crc >> (width - 8) ^ byte]
    return crc


@cache
def _crc_table(width: int, polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << (width - 8)
        for _ in range(8):
            crc = crc << 1 ^ (polynomial if crc >> (width - 1) else 0)
            crc &= (1 << width) - 1
        table.append(crc)
    return table
