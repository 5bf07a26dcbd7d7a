"""The one picture that the simulator draws, as large a file as is wanted."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Final

# One transparent pixel, the smallest honest PNG.
_PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
_END_BYTES: Final = 12  # the last chunk
_KEYWORD: Final = b"tEXtComment\0"


def png_base64(size: int = 0) -> str:
    """The picture in base64; a comment makes the file at least `size` bytes long."""
    if size <= len(_PNG):
        return base64.b64encode(_PNG).decode()
    comment = _KEYWORD + b"x" * (size - len(_PNG))
    chunk = struct.pack(">I", len(comment) - 4) + comment + struct.pack(">I", zlib.crc32(comment))
    return base64.b64encode(_PNG[:-_END_BYTES] + chunk + _PNG[-_END_BYTES:]).decode()
