"""Pictures made from nothing: an mp4 that any player opens, and a PNG.

A film is H.264 of the constrained baseline profile, its samples uncompressed: each picture is one
key frame of I_PCM macroblocks, which hold the plain values of the pixels, what an encoder is not
needed for. A bar moves through a coloured field. The tables stand before the pictures, so that a
player may begin with the first bytes.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from functools import lru_cache
from typing import Final


def u(value: int, width: int) -> str:
    """An unsigned number in so many bits, as a text of zeros and ones, as are all bits here."""
    return f"{value:0{width}b}"


def ue(value: int) -> str:
    """An unsigned Exp-Golomb code (ITU-T H.264, 9.1)."""
    bits = f"{value + 1:b}"
    return "0" * (len(bits) - 1) + bits


def packed(*bits: str) -> bytes:
    """Bits as bytes, most significant first; zeros fill the last one up."""
    whole = "".join(bits)
    size = -(-len(whole) // 8)
    return int(whole.ljust(8 * size, "0"), 2).to_bytes(size, "big")


TIMESCALE: Final = 1000  # ticks a second, so that lengths are exact to the millisecond
PICTURES_MAX: Final = 24  # a longer film shows each of them longer
MACROBLOCK: Final = 16  # pixels of an edge
SHORT_EDGE: Final = 48  # pixels; the long one follows from the ratio
LONG_EDGE_MAX: Final = 144
I_PCM: Final = 25
LEVEL: Final = 30  # 3.0: far more than these pictures need
_MATRIX: Final = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


def film(seconds: float, *, ratio: tuple[int, int] = (16, 9), seed: int = 0) -> bytes:
    """An mp4 of this length and about this ratio of width to height; `seed` decides its colour."""
    ticks = max(1, round(seconds * TIMESCALE))
    width, height = _size(ratio)
    pictures = _pictures(ticks, width, height, seed)
    lasts = _lengths(ticks, len(pictures))
    head = _box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41")
    size = len(_moov(ticks, width, height, pictures, lasts, 0))
    tables = _moov(ticks, width, height, pictures, lasts, len(head) + size + 8)
    return head + tables + _box(b"mdat", *pictures)


def padded(file: bytes, size: int) -> tuple[bytes, int]:
    """The film, and how many zero bytes must follow it, to be a file of `size` bytes or more.

    What follows is a box that players skip; its head is at the end of the bytes returned.
    """
    spare = size - len(file) - 8
    if spare < 0:
        return file, 0
    return file + struct.pack(">I4s", spare + 8, b"free"), spare


def _size(ratio: tuple[int, int]) -> tuple[int, int]:
    """Width and height in pixels, both whole macroblocks."""
    wide, high = ratio
    long_edge = min(LONG_EDGE_MAX, SHORT_EDGE * max(wide, high) / max(1, min(wide, high)))
    long_edge = max(MACROBLOCK, round(long_edge / MACROBLOCK) * MACROBLOCK)
    return (long_edge, SHORT_EDGE) if wide >= high else (SHORT_EDGE, long_edge)


def _lengths(ticks: int, count: int) -> list[int]:
    """How long each picture is shown, in ticks; together exactly the film's length."""
    edges = [ticks * number // count for number in range(count + 1)]
    return [edges[i + 1] - edges[i] for i in range(count)]


# --- The pictures ---


def _pictures(ticks: int, width: int, height: int, seed: int) -> list[bytes]:
    """The key frames, each behind its length in four bytes."""
    count = max(1, min(PICTURES_MAX, ticks * 4 // TIMESCALE))
    across, down = width // MACROBLOCK, height // MACROBLOCK
    chroma = bytes([64 + seed * 37 % 128]) * 64 + bytes([64 + seed * 59 % 128]) * 64
    bright, dark = bytes([200]) * 256 + chroma, bytes([90]) * 256 + chroma
    frames = []
    for number in range(count):
        bar = number * across // count
        unit = _key_frame(
            number, [bright if at % across == bar else dark for at in range(across * down)]
        )
        frames.append(struct.pack(">I", len(unit)) + unit)
    return frames


def _key_frame(number: int, macroblocks: list[bytes]) -> bytes:
    """One slice (7.3.3) of macroblocks given as their 384 values."""
    # First macroblock, slices that are all I, parameter set, frame number, picture (which differs
    # from the neighbour's), references, quantiser, kind of macroblock.
    head = (ue(0), ue(7), ue(0), u(0, 4), ue(number % 2), u(0, 2), ue(0), ue(I_PCM))
    later = packed(ue(I_PCM))  # the next ones begin on a whole byte
    first, *rest = macroblocks
    # None of the values is zero, so only the head can look like a start code.
    pieces = [b"\x65", _escaped(packed(*head)), first]
    for macroblock in rest:
        pieces += (later, macroblock)
    pieces.append(b"\x80")  # the stop bit
    return b"".join(pieces)


def _escaped(data: bytes) -> bytes:
    """Without what would look like a start code (7.4.1.1)."""
    return re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", data)


def _parameter_sets(width: int, height: int) -> tuple[bytes, bytes]:
    """Sequence and picture parameter set (7.3.2.1, 7.3.2.2)."""
    profile = u(66, 8) + u(0xC0, 8)  # baseline, constrained
    # Id, frame numbers in 4 bits, pictures in their order, reference frames and no gaps; frames,
    # direct_8x8, no cropping, no more about it, the stop bit.
    facts = ue(0) + ue(0) + ue(2) + ue(1) + "0"
    edges = ue(width // MACROBLOCK - 1) + ue(height // MACROBLOCK - 1)
    sequence = packed(profile, u(LEVEL, 8), facts, edges, "11000", "1")
    # One slice group; quantisers, of which nothing here is touched.
    picture = packed(2 * ue(0), "00", 3 * ue(0), "000", 3 * ue(0), "000", "1")
    return b"\x67" + _escaped(sequence), b"\x68" + _escaped(picture)


# --- The tables (ISO/IEC 14496-12 and -15) ---


def _box(kind: bytes, *parts: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def _full_box(kind: bytes, flags: int, *parts: bytes) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)


def _moov(
    ticks: int, width: int, height: int, pictures: list[bytes], lasts: list[int], first_byte: int
) -> bytes:
    """Everything a player must know; the pictures begin at `first_byte` of the file."""
    movie = struct.pack(">4I", 0, 0, TIMESCALE, ticks) + struct.pack(">IHH8x", 0x10000, 0x100, 0)
    track = struct.pack(">5I", 0, 0, 1, 0, ticks) + bytes(8) + struct.pack(">4H", 0, 0, 0, 0)
    edges = struct.pack(">2I", width << 16, height << 16)
    media = struct.pack(">4I2H", 0, 0, TIMESCALE, ticks, 0x55C4, 0)  # no language
    samples = _box(
        b"stbl",
        _description(width, height),
        _full_box(b"stts", 0, _list(">II", [(1, last) for last in lasts])),
        _full_box(b"stsc", 0, _list(">III", [(1, len(pictures), 1)])),
        _full_box(b"stsz", 0, struct.pack(">I", 0), _list(">I", [(len(p),) for p in pictures])),
        _full_box(b"stco", 0, _list(">I", [(first_byte,)])),
    )
    place = _box(b"dinf", _full_box(b"dref", 0, struct.pack(">I", 1), _full_box(b"url ", 1)))
    return _box(
        b"moov",
        _full_box(b"mvhd", 0, movie, _MATRIX, bytes(24), struct.pack(">I", 2)),
        _box(
            b"trak",
            _full_box(b"tkhd", 7, track, _MATRIX, edges),
            _box(
                b"mdia",
                _full_box(b"mdhd", 0, media),
                _full_box(b"hdlr", 0, struct.pack(">I4s12x", 0, b"vide"), b"film\0"),
                _box(b"minf", _full_box(b"vmhd", 1, bytes(8)), place, samples),
            ),
        ),
    )


def _description(width: int, height: int) -> bytes:
    """What the samples are."""
    sequence, picture = _parameter_sets(width, height)
    sets = b"".join(
        (
            bytes([1, 66, 0xC0, LEVEL, 0xFF, 0xE1]),
            struct.pack(">H", len(sequence)),
            sequence,
            b"\1",
            struct.pack(">H", len(picture)),
            picture,
        )
    )
    visual = struct.pack(">6xH16xHHII4xH32xHh", 1, width, height, 72 << 16, 72 << 16, 1, 24, -1)
    return _full_box(b"stsd", 0, struct.pack(">I", 1), _box(b"avc1", visual, _box(b"avcC", sets)))


def _list(form: str, rows: list[tuple[int, ...]]) -> bytes:
    """A table: how many rows, then each of them."""
    return struct.pack(">I", len(rows)) + b"".join(struct.pack(form, *row) for row in rows)


WIDTH: Final = 64
HEIGHT: Final = 36
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COMMENT: Final = b"Comment\0"


@lru_cache(maxsize=64)
def png(seed: int = 0, size: int = 0) -> bytes:
    """A picture whose colours follow from `seed`; a comment makes it at least `size` bytes long."""
    tint = 64 + seed * 37 % 128
    rows = [
        b"\0" + b"".join(bytes((4 * across, 7 * down, tint)) for across in range(WIDTH))
        for down in range(HEIGHT)
    ]
    head = struct.pack(">2I5B", WIDTH, HEIGHT, 8, 2, 0, 0, 0)  # eight bits each of three colours
    chunks = [
        _SIGNATURE,
        _chunk(b"IHDR", head),
        _chunk(b"IDAT", zlib.compress(b"".join(rows))),
        _chunk(b"IEND", b""),
    ]
    spare = size - sum(map(len, chunks))
    if spare > 0:
        chunks.insert(3, _chunk(b"tEXt", _COMMENT + b"x" * spare))
    return b"".join(chunks)


def png_base64(size: int = 0) -> str:
    """The same in base64."""
    return base64.b64encode(png(size=size)).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(kind))
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
