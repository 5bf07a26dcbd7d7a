"""The picture that the simulator draws, as PNG and as large a file as is wanted."""

from __future__ import annotations

import base64
import struct
import zlib
from functools import lru_cache
from typing import Final

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
