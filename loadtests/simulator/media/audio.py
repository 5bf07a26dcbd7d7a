"""Sound in every format that speech is asked for.

WAV and PCM are a tone; FLAC, Ogg Opus and AAC (ADTS) are silence, which takes no encoder: it is the
same few bytes in every frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from loadtests.simulator.media.bits import BitWriter
from loadtests.simulator.media.mp3 import mp3
from loadtests.simulator.media.tone import RATE, pcm

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
    info = BitWriter()
    for value, width in ((FLAC_BLOCK, 16), (FLAC_BLOCK, 16), (0, 24), (0, 24)):
        info.put(value, width)
    for value, width in ((RATE, 20), (0, 3), (15, 5), (samples, 36), (0, 128)):
        info.put(value, width)
    whole, rest = divmod(samples, FLAC_BLOCK)
    frames = [_flac_frame(number, FLAC_BLOCK) for number in range(whole)]
    if rest:
        frames.append(_flac_frame(whole, rest))
    return b"fLaC\x80" + (34).to_bytes(3, "big") + bytes(info) + b"".join(frames)


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
    head = BitWriter()
    head.put_text("1111111111110001")  # MPEG-4, no checksum
    head.put_text("01010000010000")  # low complexity, 44.1 kHz, mono
    head.put(7 + len(AAC_SILENCE), 13)
    head.put_text("1111111111100")
    frames = -(-max(1, round(seconds * AAC_RATE)) // AAC_SAMPLES)
    return (bytes(head) + AAC_SILENCE) * frames


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
