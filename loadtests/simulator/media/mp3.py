"""A tone as mp3: MPEG-1 layer III, mono, 44.1 kHz, 32 kbit a second.

Every frame holds the same single spectral line in both of its granules, so a frame is worked out
once. Which line that is, and thereby the pitch, follows from the seed.
"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.media.bits import BitWriter

RATE: Final = 44_100
FRAME_SAMPLES: Final = 1152
FRAME_BYTES: Final = 104  # 144 × 32,000 / 44,100, rounded down …
PERIOD: Final = 49  # … so of as many frames 24 have a byte more
PADDED: Final = 24
LINES: Final = (11, 13, 16, 20)  # of 576, each 38.3 Hz wide
GAIN: Final = 196  # 210 is full loudness, each four less halve it


def mp3(seconds: float, seed: int = 0) -> bytes:
    """A file at least this long, at most one frame (26 ms) longer."""
    frames = -(-max(1, round(seconds * RATE)) // FRAME_SAMPLES)
    line = LINES[seed % len(LINES)]
    plain, padded = _frame(line, is_padded=False), _frame(line, is_padded=True)
    period = b"".join(
        padded if at * PADDED // PERIOD != (at + 1) * PADDED // PERIOD else plain
        for at in range(PERIOD)
    )
    whole, rest = divmod(frames, PERIOD)
    return period * whole + period[: rest * FRAME_BYTES + rest * PADDED // PERIOD]


def _frame(line: int, *, is_padded: bool) -> bytes:
    head = BitWriter()
    head.put(0x7FF, 11)
    head.put_text("11011")  # MPEG-1, layer III, no checksum
    head.put_text("000100")  # 32 kbit/s, 44.1 kHz
    head.put(is_padded, 1)
    head.put(0, 1)
    head.put_text("11000000")  # mono
    coefficients = _coefficients(line)
    size = coefficients.count
    side = BitWriter()
    side.put(0, 9)  # main_data_begin: nothing is borrowed from frames before
    side.put(0, 5 + 4)  # private bits, scalefactor sharing
    for _ in range(2):
        side.put(size, 12)
        side.put(line // 2 + 1, 9)  # big_values, in pairs
        side.put(GAIN, 8)
        side.put(0, 4 + 1)  # no scalefactors, one long block
        for _ in range(3):
            side.put(1, 5)  # Huffman table 1 in each region
        side.put(0, 4 + 3)
        side.put(0, 3)
    main = BitWriter()
    for _ in range(2):
        main.put(int.from_bytes(bytes(coefficients), "big") >> -size % 8, size)
    return (bytes(head) + bytes(side) + bytes(main)).ljust(FRAME_BYTES + is_padded, b"\0")


def _coefficients(line: int) -> BitWriter:
    """Pairs of table 1: nothing up to the line, then it, positive."""
    bits = BitWriter()
    bits.put_text("1" * (line // 2))
    bits.put_text("0010" if line % 2 else "010")
    return bits
