"""The files that links lead to: films, pictures and sounds, made when they are fetched.

A link describes its file whole, `/_files/4000-0/ID.mp4?expires=…&signature=…`: its length in
milliseconds and its least size, so none is kept. A film is four pictures (H.264) made beforehand,
into whose tables the length is put; `file_bytes` makes it as large as is wanted by a box that
players skip, whose bytes are never in memory at once. MP3 and AAC repeat one frame; FLAC and Opus
are a second of silence, whatever is wanted.
"""

from __future__ import annotations

import hmac
import math
import re
import struct
import zlib
from base64 import b64encode, b85decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON
from loadtests.simulator.exchange import Exchange

PREFIX: Final = "/_files/"
PIECE_BYTES: Final = 64 * 1024
SECONDS_MAX: Final = 3600.0
_PATH: Final = re.compile(r"/_files/(\d{1,8})-(\d{1,10})/[0-9A-Za-z_.-]{1,80}\.([a-z0-9]{2,4})")
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_ZEROS: Final = bytes(PIECE_BYTES)
_LENGTH, _PICTURE_LENGTH = b"\xde\xad\xbe\xe1", b"\xde\xad\xbe\xe2"
_FILM: Final = (
    b"c-rlnF-rq67>2(Vp^M_8;vl7h?kWzBqKl)8i|A0B)*iiB>BR$`inPU_Q5@X-3*zA5<PUHVbn_p$)$dNF*HXJUINbBm"
    b"YjR00$@SsQ8$v~-P;uv{UQo9pS&34;){0?i)t;`eYT2Q!*FzEUZCEuj5Yye4+q+lENc8DPX0X-p{ickKtUmDW8pWFC"
    b"4_qxCGdJ8@Jg$r%XXLoMdacBjZEL)uW(wAfey_cU_-46k{KijB=$Ue|WySMt)Y*phPAZz232oe2a_A-VRkvUo<w{~|"
    b"lV=UT@SXn%+>x(oD{z5Hv~dxLUtTYInHAa5bm!L=!!h6M>33dx-Og;?=X<Y`JJ$4h_AMh5)u)YS)FyB)Nc1?NKgL@$"
    b"f1O(?Q6ATQr%PIQkr+qI=WYfsnF(B}-hV#Z7TNDwQ*>H?UA}5{nvW@u?LWrhA7e`PQyvh200bbAb^<st8ekQI00bZa"
    b"0h|~oMgtIl00bbAP6ExZQ|imbE+p6!u_r<U5P$##Ab=C&#Atw32m%m*00eMioEQy200I#Br&H=yrwIwPz@CUb5gK3>"
    b"f&c^{00EpBCq@GhfB*y_fD_}yXn<7+0{oX6EkFPQ?1|VDp#fGQ2tWV=5WtCXVl)5&2tWV=I5AF)22ylN{RtI(2<Q"
)
_FLAC: Final = b85decode(
    b"c-l+zNpx;tU{DfZ5MY1+<`)bf7#Qpt7|_7~AEg`&{Qr*wnT&Hm97g{CYk-_Nb3hy>{{MnN&hA+t4l`f<Gax5u5df|p7{~"
)
_OPUS: Final = b85decode(
    b"c-r$%PY-5bVt@ihDBY5CQ-x93zo4|(BQ-IF5h&cS8!X`uQqF*^9E4A?MpZCMf|Q3OrWbPpMT#?XOLG!S@{8b_SfD0="
    b"HGnL98Df0Qh?!*Y<Nv=whyZ;{tDy"
)
MP3_FRAME: Final = bytes.fromhex("fffb10c0000000280f88008420000501f100108400fcbf20").ljust(
    104, b"\0"
)
AAC_FRAME: Final = bytes.fromhex("fff1504001bffc00c800802380")
RATE: Final = 16_000  # samples a second
TONE: Final = struct.pack("<80h", *(round(6000 * math.sin(math.pi * at / 40)) for at in range(80)))


class File(NamedTuple):
    """A file as its link names it; only a film has a least size."""

    extension: str
    millis: int = 0
    size: int = 0

    @property
    def content_type(self) -> bytes:
        return _MAKERS[self.extension][0].encode()

    def path(self, name: str) -> str:
        return f"{PREFIX}{self.millis}-{self.size}/{name}.{self.extension}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; pieces in place of a body where it is long, as a file or a part of it is."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    lines: bytes = b""  # more header lines
    pieces: list[bytes] | None = None


class Files:
    """Signs links and answers them."""

    def __init__(self, seed: int) -> None:
        self._secret = b"files of %d" % seed

    def link(self, base: str, file: File, name: str, expires_at: float) -> str:
        """A link to a file at the address that was asked, good until `expires_at`."""
        path = file.path(name)
        expires = int(expires_at)
        return f"{base}{path}?expires={expires}&signature={self._signature(path, expires)}"

    def open(self, exchange: Exchange, now: float) -> Reply:
        """The file of a request; raises Refusal for a link that is not, or no longer, good."""
        found = _PATH.fullmatch(exchange.path)
        query = exchange.parameters()
        expires = query.get("expires", "")
        if found is None or found[3] not in _MAKERS or not expires.isdecimal():
            raise Refusal(404, "NoSuchKey: The specified key does not exist.")
        signature = self._signature(exchange.path, int(expires))
        if not hmac.compare_digest(signature, query.get("signature", "")):
            raise Refusal(403, "SignatureDoesNotMatch: The signature does not match.")
        if now >= int(expires):
            raise Refusal(403, "AccessDenied: Request has expired.")
        return part_of(File(found[3], int(found[1]), int(found[2])), exchange)

    def _signature(self, path: str, expires: int) -> str:
        result = f"{path}\n{expires}".encode()
        return blake2b(result, key=self._secret, digest_size=16).hexdigest()


def base_of(exchange: Exchange) -> str:
    """The address that was asked, for links."""
    host = exchange.header(b"host").decode("latin-1") or "simulator.invalid"
    return f"http://{host}"


def file_of(extension: str, seconds: float = 0.0, size: int = 0) -> File:
    """A file of so many seconds."""
    return File(extension, round(min(seconds, SECONDS_MAX) * 1000), size)


@lru_cache(maxsize=16)
def made(file: File) -> tuple[bytes, int]:
    """The bytes of a file, and how many zeros follow them."""
    data = _MAKERS[file.extension][1](max(1, file.millis))
    spare = file.size - len(data) - 8
    if spare < 0:
        return data, 0
    return data + struct.pack(">I4s", spare + 8, b"free"), spare


def part_of(file: File, exchange: Exchange) -> Reply:
    """A file, or the range of it that the request names (RFC 9110, 14); raises Refusal 416."""
    data, zeros = made(file)
    size = len(data) + zeros
    tag = b'"%b"' % blake2b(file.path("").encode(), digest_size=8).hexdigest().encode()
    lines = b"Accept-Ranges: bytes\r\nETag: %b\r\n" % tag
    match = _RANGE.fullmatch(exchange.header(b"range").decode("latin-1"))
    condition = exchange.header(b"if-range")
    start, end, status = 0, size, 200
    if match is not None and match.group() != "bytes=-" and condition in (b"", tag):
        first, last = match.groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if start >= end:
            raise Refusal(416, f"InvalidRange: bytes */{size}")
        status = 206
        lines += b"Content-Range: bytes %d-%d/%d\r\n" % (start, end - 1, size)
    lines += b"Content-Length: %d\r\n" % (end - start)
    return Reply(b"", status, file.content_type, lines, _pieces(data, start, end))


def _pieces(data: bytes, start: int, end: int) -> list[bytes]:
    """The bytes from `start` to `end` of the data and the zeros behind it."""
    ends = min(end, len(data))
    pieces = [data[at : min(ends, at + PIECE_BYTES)] for at in range(start, ends, PIECE_BYTES)]
    whole, rest = divmod(end - max(start, ends), PIECE_BYTES)
    return [*pieces, *[_ZEROS] * whole, *([_ZEROS[:rest]] if rest else [])]


def _film(millis: int) -> bytes:
    """Four pictures, each for a quarter of the time; a tick is a quarter of a millisecond."""
    length, quarter = struct.pack(">I", 4 * millis), struct.pack(">I", millis)
    tables = zlib.decompress(b85decode(_FILM))
    return tables.replace(_LENGTH, length).replace(_PICTURE_LENGTH, quarter)


def _pcm(millis: int) -> bytes:
    """A tone as plain samples: 16 bits, little-endian, mono."""
    size = millis * RATE // 1000 * 2
    return (TONE * (size // len(TONE) + 1))[:size]


def _wav(millis: int) -> bytes:
    data = _pcm(millis)
    shape = struct.pack(
        "<I4s4sIHHIIHH", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, RATE, RATE * 2, 2, 16
    )
    return b"RIFF" + shape + struct.pack("<4sI", b"data", len(data)) + data


def _frames(frame: bytes, samples: int) -> Callable[[int], bytes]:
    """As many of a frame of so many samples, 44,100 a second, as the time wants."""
    return lambda millis: frame * -(-millis * 441 // (samples * 10))


@lru_cache(maxsize=64)
def png(size: int = 0) -> bytes:
    """A picture; a comment makes it at least `size` bytes long."""
    rows = [
        b"\0" + b"".join(bytes((4 * across, 7 * down, 90)) for across in range(64))
        for down in range(36)
    ]
    chunks = [
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">2I5B", 64, 36, 8, 2, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(b"".join(rows))),
        _chunk(b"IEND", b""),
    ]
    spare = size - sum(map(len, chunks))
    if spare > 0:
        chunks.insert(3, _chunk(b"tEXt", b"Comment\0" + b"x" * spare))
    return b"".join(chunks)


def png_base64(size: int = 0) -> str:
    """The same in base64."""
    return b64encode(png(size)).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(kind))
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


# Of each extension: the content type, and what makes a file of so many milliseconds.
_MAKERS: Final[Mapping[str, tuple[str, Callable[[int], bytes]]]] = {
    "mp3": ("audio/mpeg", _frames(MP3_FRAME, 1152)),
    "wav": ("audio/wav", _wav),
    "opus": ("audio/ogg", lambda _: zlib.decompress(_OPUS)),
    "aac": ("audio/aac", _frames(AAC_FRAME, 1024)),
    "flac": ("audio/flac", lambda _: zlib.decompress(_FLAC)),
    "pcm": ("audio/pcm", _pcm),
    "mp4": ("video/mp4", _film),
    "png": ("image/png", lambda _: png()),
}
# Those that speech is asked for in.
SOUNDS: Final = ("mp3", "wav", "opus", "aac", "flac", "pcm")
