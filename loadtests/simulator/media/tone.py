"""One period of a tone, of which the uncompressed formats are made."""

from __future__ import annotations

import math
import struct
from typing import Final

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
