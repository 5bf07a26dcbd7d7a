"""How long a recording is by its container: what its sender, or the program that made it, states.

WAVE, MP3, FLAC, Ogg (Opus, Vorbis, FLAC, Speex), MP4 and WebM, the files that transcriptions take.
A head may state too little, so nothing is held or bounded by it: it is charged where the upstream
states no length, and never less than its text takes to speak (reference 7.10).

Reads heads, the last page or cluster, and a bounded number of what is between.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

# Longer than any recording in a form.
SECONDS_MAX = 7 * 24 * 3600
# Boxes, elements, chunks and frames that are looked at, each in constant time.
STEPS_MAX = 2_000
# Where the first frame, or the last page, is looked for: above the largest page of Ogg.
NEAR_BYTES = 128 * 1024


def recording_length(body: bytes, start: int, end: int) -> int | None:
    """Return the milliseconds that `body[start:end]` states; None if it states none."""
    start = _after_tags(body, start, end)
    for magic, at, reader in _READERS:
        if body.startswith(magic, start + at, end):
            try:
                seconds = reader(body, start, end)
            except (struct.error, IndexError, StopIteration, ZeroDivisionError, OverflowError):
                return None
            if seconds is None or not 0 < seconds <= SECONDS_MAX:
                return None
            return -(-int(seconds * 1_000_000) // 1000)
    return None


def _after_tags(body: bytes, start: int, end: int) -> int:
    """Return where the recording begins behind its ID3 tags."""
    for _ in range(STEPS_MAX):
        if not body.startswith(b"ID3", start, end) or start + 10 > end:
            break
        a, b, c, d = (one & 0x7F for one in body[start + 6 : start + 10])
        has_footer = body[start + 5] & 0x10
        start += 10 + (a << 21 | b << 14 | c << 7 | d) + (10 if has_footer else 0)
    return min(start, end)


def _wave(body: bytes, start: int, end: int) -> float | None:
    """The bytes of the chunk `data` by those of a second, which `fmt ` states."""
    at, bytes_per_second = start + 12, 0
    for _ in range(STEPS_MAX):
        name, size = struct.unpack_from("<4sI", body, at)
        if name == b"fmt ":
            (bytes_per_second,) = struct.unpack_from("<I", body, at + 16)
        elif name == b"data":
            return min(size or end, end - at - 8) / bytes_per_second
        at += 8 + size + (size & 1)
        if at + 8 > end:
            break
    return None


# By version and layer, in kbit/s.
_KBITS = {
    (1, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (1, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_KBITS[2, 3] = _KBITS[2, 2]
_RATES = (44_100, 48_000, 32_000)


class _Frame:
    """The head of a frame of MPEG audio: how many bytes it has, samples, and samples a second."""

    __slots__ = ("is_mono", "rate", "samples", "size", "version")

    def __init__(self, head: int) -> None:
        """Raises IndexError for what is no head."""
        version, layer = head >> 19 & 3, 4 - (head >> 17 & 3)
        bits, rate = head >> 12 & 15, head >> 10 & 3
        if head >> 21 != 0x7FF or version == 1 or layer == 4 or bits in (0, 15):
            raise IndexError
        self.version = 1 if version == 3 else 2
        self.rate = _RATES[rate] >> (2, 0, 1, 0)[version]
        self.is_mono = head >> 6 & 3 == 3
        self.samples = 384 if layer == 1 else 576 if self.version == 2 and layer == 3 else 1152
        bytes_per_second = _KBITS[self.version, layer][bits] * 125
        padding = head >> 9 & 1
        if layer == 1:
            self.size = (12 * 8 * bytes_per_second // self.rate + padding) * 4
        else:
            self.size = self.samples * bytes_per_second // self.rate + padding


def _frame(body: bytes, at: int) -> _Frame:
    return _Frame(*struct.unpack_from(">I", body, at))


def _mpeg(body: bytes, start: int, end: int) -> float | None:
    """The frames that a Xing or VBRI head counts, else the mean of the first ones."""
    found = _first_frame(body, start, end)
    if found is None:
        return None
    at, frame = found
    side = (17 if frame.is_mono else 32) if frame.version == 1 else 9 if frame.is_mono else 17
    seconds = frame.samples / frame.rate
    if body[at + 4 + side : at + 8 + side] in (b"Xing", b"Info"):
        flags, count = struct.unpack_from(">II", body, at + 8 + side)
        if flags & 1 and count:
            return float(count * seconds)
    if body[at + 36 : at + 40] == b"VBRI":
        return float(struct.unpack_from(">I", body, at + 50)[0] * seconds)
    first, count = at, 0
    while count < STEPS_MAX and at + 4 <= end:
        try:
            at += _frame(body, at).size
        except IndexError:
            break
        count += 1
    if body.startswith(b"TAG", end - 128):
        end -= 128
    return count * seconds * max(1.0, (end - first) / (at - first))


def _first_frame(body: bytes, start: int, end: int) -> tuple[int, _Frame] | None:
    """Find the first frame that another one follows."""
    at = start
    for _ in range(STEPS_MAX):
        at = body.find(b"\xff", at, min(start + NEAR_BYTES, end))
        if at < 0 or at + 4 > end:
            return None
        try:
            frame = _frame(body, at)
            if at + frame.size + 4 > end or _frame(body, at + frame.size).rate == frame.rate:
                return at, frame
        except IndexError:
            pass  # no head of a frame
        at += 1
    return None


def _flac(body: bytes, start: int, end: int) -> float | None:
    return _stream_info(body, start + 8)


def _stream_info(body: bytes, at: int) -> float:
    (packed,) = struct.unpack_from(">Q", body, at + 10)
    samples, rate = packed & (1 << 36) - 1, packed >> 44
    return float(samples / rate)


def _ogg(body: bytes, start: int, end: int) -> float | None:
    """The position of the last page, in samples."""
    at = start + 27 + body[start + 26]
    skipped = 0
    if body.startswith(b"OpusHead", at):
        rate = 48_000
        (skipped,) = struct.unpack_from("<H", body, at + 10)
    elif body.startswith(b"\x01vorbis", at):
        (rate,) = struct.unpack_from("<I", body, at + 12)
    elif body.startswith(b"\x7fFLAC", at):
        rate = struct.unpack_from(">Q", body, at + 27)[0] >> 44
    elif body.startswith(b"Speex   ", at):
        (rate,) = struct.unpack_from("<I", body, at + 36)
    else:
        return None
    serial, last = body[start + 14 : start + 18], end
    for _ in range(STEPS_MAX):
        last = body.rfind(b"OggS", max(start, end - NEAR_BYTES), last)
        if last < 0:
            break
        (position,) = struct.unpack_from("<q", body, last + 6)
        if position > 0 and body[last + 14 : last + 18] == serial:
            return float((position - skipped) / rate)
    return None


def _boxes(body: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, start and end of the content of each box of MP4."""
    for _ in range(STEPS_MAX):
        if start + 8 > end:
            return
        size, name = struct.unpack_from(">I4s", body, start)
        head = 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", body, start + 8)
            head = 16
        stop = end if size == 0 else min(start + size, end)
        if stop < start + head:
            return
        yield name, start + head, stop
        start = stop


def _inside(body: bytes, at: tuple[int, int] | None, *path: bytes) -> tuple[int, int] | None:
    """Return start and end of the first box on a path."""
    for wanted in path:
        if at is None:
            return None
        at = next(((a, b) for name, a, b in _boxes(body, *at) if name == wanted), None)
    return at


def _scale_and_length(body: bytes, at: int) -> tuple[int, int]:
    """Return the units of a second, and the length in them, of `mvhd` or `mdhd`."""
    if body[at]:
        scale, length = struct.unpack_from(">IQ", body, at + 20)
        return scale, 0 if length == 2**64 - 1 else length
    scale, length = struct.unpack_from(">II", body, at + 12)
    return scale, 0 if length == 2**32 - 1 else length


def _mp4(body: bytes, start: int, end: int) -> float | None:
    """The length of the whole; of fragments, where the last of them begins and their mean."""
    movie = _inside(body, (start, end), b"moov")
    header = _inside(body, movie, b"mvhd")
    if header is None:
        return None
    scale, length = _scale_and_length(body, header[0])
    if length:
        return length / scale
    if (whole := _inside(body, movie, b"mvex", b"mehd")) is not None:
        is_long = body[whole[0]]
        return float(struct.unpack_from(">Q" if is_long else ">I", body, whole[0] + 4)[0] / scale)
    fragments = [(a, b) for name, a, b in _boxes(body, start, end) if name == b"moof"]
    track = _inside(body, movie, b"trak", b"mdia", b"mdhd")
    if track is None or not 1 < len(fragments) < STEPS_MAX // 4:  # more may not be all
        return None
    begun = _inside(body, fragments[-1], b"traf", b"tfdt")
    if begun is None:
        return None
    (since,) = struct.unpack_from(">Q" if body[begun[0]] else ">I", body, begun[0] + 4)
    scale, _ = _scale_and_length(body, track[0])
    return float(since / scale * len(fragments) / (len(fragments) - 1))


_SEGMENT, _INFO, _CLUSTER = 0x18538067, 0x1549A966, 0x1F43B675
_SCALE, _DURATION, _TIMESTAMP = 0x2AD7B1, 0x4489, 0xE7
_SIMPLE_BLOCK, _BLOCK_GROUP, _BLOCK = 0xA3, 0xA0, 0xA1


def _elements(body: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield id, start and end of the content of each element of WebM."""
    for _ in range(STEPS_MAX):
        if start >= end:
            return
        length = 9 - body[start].bit_length()
        name = int.from_bytes(body[start : start + length])
        start += length
        length = 9 - body[start].bit_length()
        size = int.from_bytes(body[start : start + length]) & (1 << 7 * length) - 1
        start += length
        is_open = size == (1 << 7 * length) - 1  # what is recorded live ends with the file
        stop = end if is_open else min(start + size, end)
        yield name, start, stop
        start = stop


def _webm(body: bytes, start: int, end: int) -> float | None:
    """The length of the whole, else where the last block begins."""
    segment = next(((a, b) for name, a, b in _elements(body, start, end) if name == _SEGMENT), None)
    if segment is None:
        return None
    nanoseconds = 1_000_000
    for name, a, b in _elements(body, *segment):
        if name == _CLUSTER:
            break
        if name != _INFO:
            continue
        length = None
        for inner, c, d in _elements(body, a, b):
            if inner == _SCALE:
                nanoseconds = int.from_bytes(body[c:d])
            elif inner == _DURATION:
                (length,) = struct.unpack_from(">f" if d - c == 4 else ">d", body, c)
        if length:
            return float(length * nanoseconds / 1e9)
    last = body.rfind(_CLUSTER.to_bytes(4), segment[0], segment[1])
    if last < 0:
        return None
    since = offset = 0
    (_, a, b) = next(_elements(body, last, segment[1]))
    for name, c, d in _elements(body, a, b):
        if name == _TIMESTAMP:
            since = int.from_bytes(body[c : min(d, c + 8)])
        elif name == _BLOCK_GROUP:
            blocks = (
                one for one, *_ in ((e, f) for n, e, f in _elements(body, c, d) if n == _BLOCK)
            )
            offset = max(offset, *(_offset(body, one) for one in blocks), 0)
        elif name == _SIMPLE_BLOCK:
            offset = max(offset, _offset(body, c))
    return float((since + offset) * nanoseconds / 1e9)


def _offset(body: bytes, at: int) -> int:
    """Return when a block begins after its cluster."""
    (offset,) = struct.unpack_from(">h", body, at + 9 - body[at].bit_length())
    return int(offset)


_READERS: tuple[tuple[bytes, int, Callable[[bytes, int, int], float | None]], ...] = (
    (b"WAVE", 8, _wave),
    (b"fLaC", 0, _flac),
    (b"OggS", 0, _ogg),
    (b"\x1a\x45\xdf\xa3", 0, _webm),
    (b"ftyp", 4, _mp4),
    (b"moov", 4, _mp4),
    (b"", 0, _mpeg),
)
